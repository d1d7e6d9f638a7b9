"""Counting a large month behind the page that asked: asked for, done by a task, and told.

A page may take as long as `counting.AT_ONCE` segments do; what is larger is a row that says
who asked, and later what came of it. The acts are those of `books`, with their own guards: one that
was done already when its worker died is refused the second time, and says how the month stands.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, IntegrityError, OperationalError, connections, transaction
from django.db.models import Q
from django.utils import timezone

from accounts.errors import DomainError
from accounts.models import Rate, User
from accounts.services.audit import Subject, record
from scheduler import events
from scheduler.ledger.findings import Finding
from scheduler.ledger.periods import Month
from scheduler.models import Counting, CountingAct
from scheduler.services.books import counting
from scheduler.services.books.closing import (
    close_period,
    correct_period,
    month_to_close,
    month_to_correct,
    month_to_soft_close,
    soft_close_period,
)
from scheduler.services.books.months.restating import months_moved, preview_price
from scheduler.services.books.months.trying import require_trier, try_period
from scheduler.services.books.posting import CloseBlocked, require_bookkeeper
from scheduler.services.books.recounting import months_that_lost
from scheduler.services.errors import Conflict, Invalid

logger = logging.getLogger(__name__)
_RETRY = timedelta(minutes=5)
_ALIVE_S = 30.0


def count_behind(
    *,
    actor: User,
    act: CountingAct,
    period: str = "",
    rate: Rate | None = None,
    seen: str = "",
    reason: str = "",
    now: datetime | None = None,
) -> Counting | None:
    """Ask for it where it is too much for a page; None where the caller may do it at once.

    What is refused without counting is refused now: raises as the acts do, and Conflict while the
    same month or price is being counted.
    """
    now = now or timezone.now()
    if not counting.is_much(_months_of(actor, act, period, rate, seen, reason, now)):
        return None
    try:
        with transaction.atomic():
            row = Counting.objects.create(
                act=act,
                month=period,
                rate=rate,
                seen=seen,
                reason=reason.strip()[:255],
                asked_by=actor,
                asked_at=now,
            )
            about = rate or Subject("period", "", period)
            record(actor, "books.count", about, after={"number": row.pk, "for": str(act)}, now=now)
    except IntegrityError:
        what = period or "This price"
        raise Conflict(f"{what} is being counted already; wait until that is done.") from None
    return row


def _months_of(
    actor: User,
    act: CountingAct,
    month: str,
    rate: Rate | None,
    seen: str,
    reason: str,
    now: datetime,
) -> list[Month]:
    """What is to be counted, once what needs no counting has been looked at."""
    if rate is not None:
        require_bookkeeper(actor)
        return months_moved(rate)
    if act == CountingAct.CHECK:
        return _with_earlier(require_trier(actor, month))
    require_bookkeeper(actor)
    if act == CountingAct.SOFT_CLOSE:
        return [month_to_soft_close(month, seen, now)]
    if act == CountingAct.CLOSE:
        return _with_earlier(month_to_close(month, seen, now)[0])
    if not reason.strip():
        raise Invalid("Say what is corrected.", field="reason")
    return [month_to_correct(month)[0]]


def _with_earlier(month: Month) -> list[Month]:
    """A month and those that are counted anew when it closes."""
    return [month, *(earlier for earlier, _ in months_that_lost(month))]


def do_countings() -> int:
    """Do what is asked for, the oldest first; returns how many are done."""
    count = 0
    while (row := _claimed()) is not None:
        try:
            with _alive(row):
                says, found = _ACTS[CountingAct(row.act)](row)
            _end(row, says, found)
        except CloseBlocked as blocked:
            _end(row, "Something stands in the way.", _told(blocked.findings), is_refused=True)
        except DomainError as refused:
            _end(row, refused.detail, is_refused=True)
        except OperationalError:
            # Left claimed: it is taken up again after a while.
            logger.warning("counting %s broke off", row.pk, exc_info=True)
        except Exception:
            # A fault of ours: those behind it are done all the same, and it is not tried for ever.
            logger.exception("counting %s failed", row.pk)
            _end(row, "It could not be counted: our fault, and noted.", is_refused=True)
        count += 1
    return count


def _claimed() -> Counting | None:
    now = timezone.now()
    free = Q(claimed_at=None) | Q(claimed_at__lte=now - _RETRY)
    due = Counting.objects.filter(free, ended_at=None).order_by("pk")
    for pk in list(due.values_list("pk", flat=True)):
        if due.filter(pk=pk).update(claimed_at=now):
            return Counting.objects.select_related("asked_by", "rate").get(pk=pk)
    return None


@contextmanager
def _alive(row: Counting) -> Iterator[None]:
    """While the block runs the row's claim is kept fresh; it cannot say so itself meanwhile."""
    over = threading.Event()

    def keep() -> None:
        while not over.wait(_ALIVE_S):
            with suppress(DatabaseError):
                waiting = Counting.objects.filter(pk=row.pk, ended_at=None)
                waiting.update(claimed_at=timezone.now())
        connections.close_all()

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _end(
    row: Counting, says: str, found: Mapping[str, Any] | None = None, *, is_refused: bool = False
) -> None:
    """Who was thought dead over it and comes second changes nothing."""
    with transaction.atomic():
        waiting = Counting.objects.filter(pk=row.pk, ended_at=None)
        if waiting.update(
            ended_at=timezone.now(),
            says=says[:400],
            found=dict(found or {}),
            is_refused=is_refused,
        ):
            events.publish_on_commit(f"user:{row.asked_by_id}", "counted")


def _told(findings: tuple[Finding, ...]) -> dict[str, Any]:
    return {
        "findings": [
            {"trouble": str(one.trouble), "subject": one.subject, "words": one.words}
            for one in findings
        ]
    }


def _check(row: Counting) -> tuple[str, dict[str, Any]]:
    trial = try_period(actor=row.asked_by, period=row.month)
    figures = {
        "lines": trial.lines,
        "hours": str(trial.hours),
        "used": str(trial.used),
        "currency": trial.currency,
        "waiting": trial.waiting,
    }
    says = "It would be refused." if trial.blocked else "Nothing is in the way of closing it."
    return says, {**_told((*trial.blocked, *trial.remarks)), **figures}


def _soft_close(row: Counting) -> tuple[str, dict[str, Any]]:
    soft_close_period(actor=row.asked_by, period=row.month, seen=row.seen)
    return f"{row.month} is soft closed, and budgets count what the books say.", {}


def _close(row: Counting) -> tuple[str, dict[str, Any]]:
    close = close_period(actor=row.asked_by, period=row.month, seen=row.seen)
    return f"{row.month} is closed as version {close.version}.", {}


def _correct(row: Counting) -> tuple[str, dict[str, Any]]:
    entries = correct_period(actor=row.asked_by, period=row.month, reason=row.reason)
    if not entries:
        return "Nothing differs.", {}
    return f"{len(entries)} corrections of {row.month} are posted.", {"entries": len(entries)}


def _preview(row: Counting) -> tuple[str, dict[str, Any]]:
    assert row.rate is not None
    preview = preview_price(actor=row.asked_by, rate=row.rate)
    return f"{len(preview.moves)} accounts of closed months would change.", {}


_ACTS: Mapping[CountingAct, Callable[[Counting], tuple[str, dict[str, Any]]]] = {
    CountingAct.CHECK: _check,
    CountingAct.SOFT_CLOSE: _soft_close,
    CountingAct.CLOSE: _close,
    CountingAct.CORRECT: _correct,
    CountingAct.PREVIEW: _preview,
}
