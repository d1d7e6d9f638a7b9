"""Months that close by themselves: soft on one day of the month after, for good on a later one.

What keeps a month open is told to those who keep the books, each thing once; they mend it and
close it, or the next day's look does. A month that was reopened is theirs alone.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from accounts.permissions import people_who_can
from scheduler.conf import load_conf
from scheduler.ledger.findings import Finding
from scheduler.ledger.periods import Month, PeriodState
from scheduler.ledger.segments import Bucket
from scheduler.models import DeviceSegment, Period, Placement
from scheduler.services.books.budgets.truing import true_up_after
from scheduler.services.books.closing import close_month, correct_month, soft_close_month
from scheduler.services.books.posting import CloseBlocked, period_named
from scheduler.services.errors import Conflict
from scheduler.services.inbox.telling import News, tell
from scheduler.states import NoticeKind

logger = logging.getLogger(__name__)
# A month that something stands in the way of is counted again no sooner.
_TRIED_EVERY = timedelta(hours=20)
_NAMED = 3
_LATE_FOR = timedelta(days=3)


def close_by_calendar(*, now: datetime) -> int:
    """Close what is due, the earliest first; returns how many months moved on.

    Two statements where nothing is due. Ends at the first month that cannot be closed: those
    behind it wait for it.
    """
    closing, moved, behind = load_conf().closing, 0, _behind(now)
    for month, state in behind:
        soft_at = closing.soft_at(month)
        if state is PeriodState.OPEN and soft_at is not None and soft_at <= now:
            soft_close_month(None, month, "", now)
            moved += 1
    if moved:
        true_up_after("a soft close by the calendar", now=now)
    for month, state in behind:
        close_at = closing.close_at(month)
        is_due = close_at is not None and close_at <= now
        if state is PeriodState.REOPENED or not is_due or not _closes(month, now):
            break
        moved += 1
    return moved


def correct_by_late_reports(*, now: datetime) -> int:
    """Post what nodes told after a month was closed that they had run in it; returns how many
    entries. Nothing where months are not closed by the calendar: the nightly look tells of it.

    A statement where no node told anything late. What was told is looked at for some nights, and
    posts nothing once it is booked. What keeps a month from being corrected is told to those who
    keep the books, and keeps no other month from it.
    """
    told = Placement.objects.filter(
        ran_told_at__gt=F("ended_at"), ran_told_at__gte=now - _LATE_FOR
    ).values_list("attempt_id", flat=True)
    if not (attempts := list(told)):
        return 0
    held = DeviceSegment.objects.filter(attempt__in=attempts, bucket=str(Bucket.UNREACHABLE))
    spans = list(held.values_list("start_s", "end_s"))
    posted = 0
    for period in Period.objects.filter(state=PeriodState.CLOSED).order_by("name"):
        month = Month.parse(period.name)
        is_in = any(
            start < month.end_s and (end is None or end > month.start_s) for start, end in spans
        )
        if is_in and load_conf().closing.close_at(month) is not None:
            posted += _corrected(month, now)
    return posted


def _corrected(month: Month, now: datetime) -> int:
    try:
        return len(correct_month(None, month, "nodes told later what they had run", now))
    except CloseBlocked as blocked:
        _tell_blocked(f"{month} could not be corrected", month, blocked.findings, now)
    except Conflict as elsewhere:
        logger.info("%s is kept by somebody else: %s", month, elsewhere)
    return 0


def _closes(month: Month, now: datetime) -> bool:
    if not _is_turn(month, now):
        return False
    try:
        close = close_month(None, month, "", now)
    except CloseBlocked as blocked:
        _tell_blocked(f"{month} could not be closed", month, blocked.findings, now)
        return False
    except Conflict as elsewhere:
        logger.info("%s is closed by somebody else: %s", month, elsewhere)
        return False
    _tell(month, f"{month} is closed", f"Version {close.version}, by the calendar.", now)
    return True


def _behind(now: datetime) -> list[tuple[Month, PeriodState]]:
    """Months with segments before that of `now` that are not closed, the earliest first."""
    first = DeviceSegment.objects.order_by("pk").values_list("start_s", flat=True).first()
    if first is None:
        return []
    states = dict(Period.objects.order_by().values_list("name", "state"))
    found: list[tuple[Month, PeriodState]] = []
    month, here = Month.of(first), Month.of(int(now.timestamp()))
    while month < here:
        state = PeriodState(states.get(str(month), PeriodState.OPEN))
        if state is not PeriodState.CLOSED:
            found.append((month, state))
        month = month.following
    return found


def _is_turn(month: Month, now: datetime) -> bool:
    """Whether this look is the one that tries; of several at once one is."""
    row = period_named(str(month))
    if row.state in (PeriodState.REOPENED, PeriodState.CLOSED):
        # Somebody was here since the months were looked at.
        return False
    waited = Q(close_tried_at=None) | Q(close_tried_at__lt=now - _TRIED_EVERY)
    return bool(Period.objects.filter(waited, pk=row.pk).update(close_tried_at=now))


def _tell_blocked(title: str, month: Month, findings: Sequence[Finding], now: datetime) -> None:
    shown = "; ".join(f"{one.subject} {one.words}" for one in findings[:_NAMED])
    more = f"; and {len(findings) - _NAMED} more" if len(findings) > _NAMED else ""
    _tell(month, title, f"In the way: {shown}{more}.", now)


@transaction.atomic
def _tell(month: Month, title: str, text: str, now: datetime) -> None:
    tell(
        [
            News(
                person_id=person.pk,
                kind=NoticeKind.MONTH_CLOSE,
                subject=f"month:{month}",
                title=title,
                text=text,
                path=f"/finance/periods/#m{month}",
                key=f"month:{title}:{hashlib.sha256(text.encode()).hexdigest()[:12]}",
            )
            for person in people_who_can("keep_books", None)
        ],
        now=now,
    )
