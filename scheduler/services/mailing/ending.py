"""Notices of an end: who is told, and when, that what was granted for a time is soon over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from accounts.models import User
from scheduler.models import GrantNotice, OutboundMail, QuotaRequest, Session
from scheduler.services.inbox.hours import whose_mail_waits
from scheduler.services.inbox.mailing import wants_mail
from scheduler.services.inbox.telling import News, tell
from scheduler.services.requesting.rights import asks, deciders
from scheduler.services.requesting.timeline import link_to, title_of
from scheduler.states import (
    LIVE_JOB_STATES,
    REVIEW_STATES,
    NoticeKind,
    RequestState,
    ReviewStep,
    moment_words,
)

# Days before the end at which people are told.
NOTICE_DAYS = (30, 14, 7, 1, 0)
# So short before it those with an open session are told, too.
_SESSION_DAYS = 1
_AFTERWARDS = (
    "Running jobs and sessions go on; nothing new starts on it afterwards, and what runs beyond "
    "the guarantee may have to make room."
)


@dataclass(frozen=True, slots=True)
class Ending:
    """Something granted, and when it is over; `days`: the threshold that its rest is within.

    `renewal`: what asks for it to go on, and waits for a decision.
    """

    request: QuotaRequest
    until: datetime
    days: int
    renewal: QuotaRequest | None

    @property
    def words(self) -> str:
        """What ends, and when."""
        return f"{title_of(self.request)}: until {moment_words(self.until)}"


def notify_of_ends(*, now: datetime) -> int:
    """One digest a person and day of what comes to its end and was not renewed; how many were
    written. Whom it concerns is told in the inbox, too; a mail goes to those who want one.

    Grants, and GPU-hours and money added to a budget; of these the request that is carried out at
    the end says how much went back. A threshold that passed while nobody looked is made good by the
    next call.
    """
    found = _endings(now)
    told = set(
        GrantNotice.objects.filter(request__in=[one.request.pk for one in found]).values_list(
            "request_id", "person_id", "days"
        )
    )
    sessions = _session_owners([one for one in found if one.days <= _SESSION_DAYS])
    lines: dict[int, list[tuple[Ending, bool]]] = {}
    for one in found:
        concerned = _concerned(one.request)
        for person in concerned | sessions.get(one.request.pk, frozenset()):
            if (one.request.pk, person, one.days) not in told:
                lines.setdefault(person, []).append((one, person in concerned))
    active = set(User.objects.filter(pk__in=lines, is_active=True).values_list("pk", flat=True))
    return sum(_digest(person, of, now) for person, of in lines.items() if person in active)


def _endings(now: datetime) -> list[Ending]:
    since, until = now - timedelta(days=1), now + timedelta(days=NOTICE_DAYS[0])
    rows = QuotaRequest.objects.filter(
        Q(
            granted__revoked_at=None,
            granted__valid_until__gt=since,
            granted__valid_until__lte=until,
        )
        | Q(returns_at__gt=since, returns_at__lte=until)
    ).select_related("granted", "team", "project__team", "asked_by")
    renewals = QuotaRequest.objects.filter(renews=OuterRef("pk"))
    goes_on = renewals.filter(
        Q(granted__isnull=False, granted__revoked_at=None) | Q(returns_at__isnull=False),
        state__in=(RequestState.APPROVED, RequestState.PARTLY_APPROVED),
    )
    waits = QuotaRequest.objects.filter(state__in=[*REVIEW_STATES, RequestState.NEEDS_INFO])
    waiting = {one.renews_id: one for one in waits.filter(renews__in=rows.order_by().values("pk"))}
    found = []
    for request in rows.exclude(Exists(goes_on)):
        end = request.granted.valid_until if request.granted else request.returns_at
        if end is not None:
            renewal = waiting.get(request.pk)
            found.append(Ending(request, end, _threshold(end - now), renewal))
    return sorted(found, key=lambda one: (one.until, one.request.pk))


def _threshold(left: timedelta) -> int:
    """The smallest number of days that this is still within."""
    return min(days for days in NOTICE_DAYS if left <= timedelta(days=days) or days == 30)


def _concerned(request: QuotaRequest) -> frozenset[int]:
    """Who asked, while they still might, and the leads."""
    leads = deciders(ReviewStep.LEAD, request.team) - deciders(ReviewStep.ADMIN, request.team)
    mine = {request.asked_by_id} if asks(request.asked_by, request) else set()
    return frozenset(mine | leads)


def _session_owners(endings: Iterable[Ending]) -> Mapping[int, frozenset[int]]:
    """By request, whose sessions run where it counts: they may have to make room afterwards."""
    ends = list(endings)
    if not ends:
        return {}
    live = Session.objects.filter(job__state__in=LIVE_JOB_STATES).values_list(
        "job__owner_id", "job__project_id", "job__project__team_id"
    )
    rows = list(live)
    return {
        one.request.pk: frozenset(
            owner
            for owner, project, team in rows
            if (
                project == one.request.project_id
                if one.request.project_id
                else team == one.request.team_id
            )
        )
        for one in ends
    }


def _digest(person: int, found: Sequence[tuple[Ending, bool]], now: datetime) -> bool:
    """The mail and its notices, unless this person had one today; of each whether it concerns them:
    who only has a session may not even see the request.
    """
    key = f"grants:{now:%Y-%m-%d}:{person}"
    with transaction.atomic():
        if OutboundMail.objects.filter(key=key).exists():
            return False
        later = bool(whose_mail_waits({person}, NoticeKind.REQUEST_DECIDED, now))
        news = [_news(person, one, is_mailed=not later) for one, is_theirs in found if is_theirs]
        tell(news, now=now)
        mailed = [
            pair
            for pair in found
            # Of what only concerns a session nothing is told but by mail.
            if not (later and pair[1])
            and wants_mail({person}, NoticeKind.REQUEST_DECIDED, _about(pair[0].request))
        ]
        if mailed:
            _mail(key, person, mailed, now)
        GrantNotice.objects.bulk_create(
            GrantNotice(request=one.request, person_id=person, days=one.days, at=now)
            for one, _ in found
        )
    return True


def _about(request: QuotaRequest) -> str:
    return f"request:{request.pk}"


def _news(person: int, one: Ending, *, is_mailed: bool) -> News:
    return News(
        person_id=person,
        kind=NoticeKind.REQUEST_DECIDED,
        subject=_about(one.request),
        title=f"{title_of(one.request)} comes to its end",
        text=f"Until {moment_words(one.until)}. {_AFTERWARDS}",
        path=f"/requests/{one.request.pk}/",
        key=f"request:{one.request.pk}:ends:{one.days}",
        is_mailed=is_mailed,
    )


def _mail(key: str, person: int, found: Sequence[tuple[Ending, bool]], now: datetime) -> None:
    lines = [f"- {one.words}\n  {_next_for(person, one, mine)}" for one, mine in found]
    OutboundMail.objects.create(
        key=key,
        person_id=person,
        subject=f"{len(found)} grants of quota come to their end"
        if len(found) > 1
        else f"{title_of(found[0][0].request)} comes to its end"[:200],
        text="\n".join([_AFTERWARDS, "", *lines, ""]),
        created_at=now,
        not_before=now,
    )


def _next_for(person: int, one: Ending, is_theirs: bool) -> str:
    """What there is for this person to do about it; nobody renews what another asked for."""
    if not is_theirs:
        return "you have a session there"
    if one.renewal is not None:
        return f"its renewal, {one.renewal}, waits for a decision: {link_to(one.renewal)}"
    if person == one.request.asked_by_id:
        return f"renew: {link_to(one.request)}"
    return f"who asked for it may renew it: {link_to(one.request)}"
