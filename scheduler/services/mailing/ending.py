"""Notices of an end: who is told, and when, that what was granted for a time is soon over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from accounts.models import User
from scheduler.models import GrantNotice, OutboundMail, QuotaRequest, Session
from scheduler.services.requesting.rights import deciders
from scheduler.services.requesting.timeline import link_to, title_of
from scheduler.states import LIVE_JOB_STATES, ReviewStep

# Days before the end at which people are told.
NOTICE_DAYS = (30, 14, 7, 1, 0)
# So short before it those with an open session are told, too.
_SESSION_DAYS = 1


@dataclass(frozen=True, slots=True)
class Ending:
    """Something granted, and when it is over; `days`: the threshold that its rest is within."""

    request: QuotaRequest
    until: datetime
    days: int


def notify_of_ends(*, now: datetime) -> int:
    """One digest a person and day of what comes to its end; how many were written.

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
    ).select_related("granted", "team", "project__team")
    found = []
    for request in rows:
        end = request.granted.valid_until if request.granted else request.returns_at
        if end is not None:
            found.append(Ending(request, end, _threshold(end - now)))
    return sorted(found, key=lambda one: (one.until, one.request.pk))


def _threshold(left: timedelta) -> int:
    """The smallest number of days that this is still within."""
    return min(days for days in NOTICE_DAYS if left <= timedelta(days=days) or days == 30)


def _concerned(request: QuotaRequest) -> frozenset[int]:
    leads = deciders(ReviewStep.LEAD, request.team) - deciders(ReviewStep.ADMIN, request.team)
    return frozenset({request.asked_by_id} | leads)


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
    """The mail and its notices, unless this person had one today; of each whether it is theirs to
    renew: who only has a session may not even see the request.
    """
    key = f"grants:{now:%Y-%m-%d}:{person}"
    with transaction.atomic():
        if OutboundMail.objects.filter(key=key).exists():
            return False
        text = "\n".join(
            f"- {title_of(one.request)}: until {one.until:%Y-%m-%d %H:%M} UTC\n"
            f"  {f'renew: {link_to(one.request)}' if is_theirs else 'you have a session there'}"
            for one, is_theirs in found
        )
        OutboundMail.objects.create(
            key=key,
            person_id=person,
            subject=f"{len(found)} grants of quota come to their end"
            if len(found) > 1
            else f"{title_of(found[0][0].request)} comes to its end"[:200],
            text="Running jobs and sessions go on; nothing new starts on it afterwards, and what "
            f"runs beyond the guarantee may have to make room.\n\n{text}\n",
            created_at=now,
            not_before=now,
        )
        GrantNotice.objects.bulk_create(
            GrantNotice(request=one.request, person_id=person, days=one.days, at=now)
            for one, _ in found
        )
    return True
