"""Mails that hold what came together: what ended and how, with its cost; what waits for a decision;
the rest. Nothing new, no mail. What somebody may not see any more when it goes out is left out.

Written by a task, in a number of statements that does not grow with people. What it takes it marks
in the same transaction, so that of two tasks, or after a crash, each thing is in one mail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import transaction
from django.db.models import Sum

from accounts.models import Membership, User, UserKind
from scheduler.conf import load_conf
from scheduler.models import (
    Job,
    JobSet,
    Notification,
    NotificationMute,
    OutboundMail,
    QuotaRequest,
    UsageEntry,
    WaitingNews,
)
from scheduler.selectors.inbox.sight import still_seen
from scheduler.states import OPEN_REQUEST_STATES, NoticeKind

# So much is looked at in one transaction, and so much is listed in one mail.
_BATCH, MOST_LISTED = 2_000, 100
_KEPT = timedelta(days=1)
_ENDED = frozenset(
    {
        NoticeKind.JOB_SUCCEEDED,
        NoticeKind.JOB_FAILED,
        NoticeKind.JOB_CANCELLED,
        NoticeKind.SESSION_IDLE,
    }
)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What was looked up for all mails at once: costs by person and subject, and the subjects of
    requests that are open still."""

    costs: Mapping[tuple[int, str], Decimal]
    open: frozenset[str]


def write_digests(*, now: datetime) -> int:
    """A mail for each person for whom something is due; returns how many were written."""
    written = 0
    while (found := _write_some(now)) is not None:
        written += found
    return written


def prune_waiting(*, now: datetime) -> int:
    """Forget what went out long ago; channels know by it for a while what they were told."""
    return WaitingNews.objects.filter(taken_at__lt=now - _KEPT).delete()[0]


@transaction.atomic
def _write_some(now: datetime) -> int | None:
    """The mails of those whose news are first; None without any."""
    due = WaitingNews.objects.filter(webhook=None, taken_at=None, due_at__lte=now)
    people = list(due.order_by("id").values_list("person_id", flat=True)[:_BATCH])
    if not people:
        return None
    rows = due.filter(person__in=set(people)).select_for_update(of=("self",))
    mine: dict[int, list[Notification]] = {}
    last, taken = {}, []
    mutes = NotificationMute.objects.filter(person__in=set(people))
    muted = set(mutes.values_list("person_id", "subject"))
    for row in rows.select_related("notification").order_by("id"):
        taken.append(row.pk)
        if row.person_id is not None and (row.person_id, row.notification.subject) not in muted:
            mine.setdefault(row.person_id, []).append(row.notification)
            last[row.person_id] = row.pk
    reachable = User.objects.filter(pk__in=mine, is_active=True, kind=UserKind.PERSON)
    to = set(reachable.exclude(email="").values_list("pk", flat=True))
    mine = _by_person(still_seen([one for told in mine.values() for one in told]))
    facts = _facts_of([one for told in mine.values() for one in told])
    mails = [
        OutboundMail(
            key=f"digest:{last[person]}",
            person_id=person,
            subject=subject,
            text=text,
            created_at=now,
            not_before=now,
        )
        for person, told in mine.items()
        if person in to
        for subject, text in _words_of(told, facts)
    ]
    OutboundMail.objects.bulk_create(mails, batch_size=500, ignore_conflicts=True)
    for at in range(0, len(taken), _BATCH):
        WaitingNews.objects.filter(pk__in=taken[at : at + _BATCH]).update(taken_at=now)
    return len(mails)


def _by_person(told: Iterable[Notification]) -> dict[int, list[Notification]]:
    found: dict[int, list[Notification]] = {}
    for one in told:
        found.setdefault(one.person_id, []).append(one)
    return found


def _facts_of(told: Sequence[Notification]) -> _Facts:
    """Costs are said to those alone who are in the job's team still."""
    jobs, sets, asked = (_numbers(told, kind) for kind in ("job", "set", "request"))
    team_of: dict[str, int] = {}
    for kind, model, ids in (("job", Job, jobs), ("set", JobSet, sets)):
        rows = model._default_manager.filter(pk__in=ids)
        team_of |= {f"{kind}:{pk}": team for pk, team in rows.values_list("pk", "project__team")}
    entries = UsageEntry.objects.order_by()
    costs = {
        f"{kind}:{number}": cost
        for kind, path, ids in (("job", "job", jobs), ("set", "job__job_set", sets))
        for number, cost in entries.filter(**{f"{path}__in": ids})
        .values_list(path)
        .annotate(Sum("cost"))
    }
    people = {one.person_id for one in told}
    inside = Membership.objects.filter(user__in=people, team__in=set(team_of.values()))
    members = set(inside.values_list("user_id", "team_id"))
    still_open = QuotaRequest.objects.filter(pk__in=asked, state__in=OPEN_REQUEST_STATES)
    return _Facts(
        costs={
            (one.person_id, one.subject): costs.get(one.subject, Decimal(0))
            for one in told
            if (one.person_id, team_of.get(one.subject)) in members
        },
        open=frozenset(f"request:{pk}" for pk in still_open.values_list("pk", flat=True)),
    )


def _numbers(told: Iterable[Notification], kind: str) -> set[int]:
    found = (one.subject.partition(":") for one in told)
    return {int(number) for word, _, number in found if word == kind and number.isdecimal()}


def _words_of(told: Sequence[Notification], facts: _Facts) -> Iterator[tuple[str, str]]:
    """Subject and text of the mail; nothing where all of it was decided by others meanwhile."""
    home = load_conf().public_url
    asked = {one.subject: one for one in told if one.kind == NoticeKind.REQUEST_WAITING}
    waits = [
        one
        for subject, one in asked.items()
        if subject in facts.open or not subject.startswith("request:")
    ]
    ended = [one for one in told if one.kind in _ENDED]
    rest = [one for one in told if one.kind not in {*_ENDED, NoticeKind.REQUEST_WAITING}]
    parts = (
        _part("Waits for you to decide", waits, facts),
        _part("Ended", ended, facts),
        _part("And this", rest, facts),
    )
    if count := len(waits) + len(ended) + len(rest):
        text = "\n".join(part for part in parts if part)
        yield (
            f"{count} piece{'' if count == 1 else 's'} of news",
            f"{text}\nAll of them: {home}/notifications/\n"
            f"When mails come: {home}/settings/notifications/when/\n",
        )


def _part(heading: str, told: Sequence[Notification], facts: _Facts) -> str:
    """A heading and its lines, the latest first; empty for none."""
    if not told:
        return ""
    home, lines = load_conf().public_url, []
    for one in list(reversed(told))[:MOST_LISTED]:
        cost = facts.costs.get((one.person_id, one.subject))
        is_priced = cost is not None and one.kind in _ENDED
        price = f" ({cost:.2f} {load_conf().currency})" if is_priced else ""
        why = f"\n  {one.text}" if one.text else ""
        lines.append(f"- {one.title}{price}{why}\n  {home}{one.path}\n")
    over = len(told) - MOST_LISTED
    more = f"- and {over} more\n" if over > 0 else ""
    return f"{heading} ({len(told)}):\n\n{''.join(lines)}{more}"
