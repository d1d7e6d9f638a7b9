"""A closed month counted anew: its books are made to hold what it comes to by now.

The one way to post for a month behind: a correction, a second close, and the close of a later month
that learnt of losses. Lines say what the first close charged and are never posted from: what the
books hold may have been reopened, corrected or priced anew since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from django.db.models import Min

from accounts.models import User
from accounts.services.audit import record
from scheduler.ledger.closing import BookKey, Posting, entries_of
from scheduler.ledger.entries import PLATFORM, RECOVERY, Entry, EntryKind
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.findings import blocking
from scheduler.ledger.periods import Month, PeriodState
from scheduler.models import Attempt, DeviceSegment, LedgerEntry, LedgerHead, Period, UsageLine
from scheduler.services.books import reading
from scheduler.services.books.counting import Counted, count_month
from scheduler.services.books.posting import CloseBlocked, locked_head, post_entries
from scheduler.services.errors import Conflict
from scheduler.states import END_RULES, EndReason

_NOT_BILLABLE = [str(reason) for reason in EndReason if not END_RULES[reason].billable]
_LEARNT = "attempts that it charged for ended later by the platform's fault"
# What an attempt was charged, by what an entry sums: seconds and amount.
_Charged = dict[int, tuple[int, Decimal]]


@dataclass(frozen=True, slots=True)
class Recount:
    """What a closed month comes to. `head`: the last entry of the chain before it was counted."""

    month: Month
    period: Period
    counted: Counted
    head: int


def recount(month: Month, period: Period) -> Recount:
    """Count it; call outside of transactions, as it may take a minute. Raises CloseBlocked."""
    head = LedgerHead.objects.order_by("pk").values_list("number", flat=True).first() or 0
    counted = count_month(month, period)
    if found := blocking(counted.findings):
        raise CloseBlocked(str(month), found)
    return Recount(month, period, counted, head)


def post_recount(found: Recount, where: Posting) -> list[LedgerEntry]:
    """Post what the books lack; call inside a transaction.

    Raises Conflict where somebody has posted for the month meanwhile: theirs may be the later
    count, and this one would take it back.
    """
    locked_head()
    since = LedgerEntry.objects.filter(service_period=found.period, number__gt=found.head)
    if since.exclude(sku="").exists():
        raise Conflict(f"{found.month} was corrected while it was counted; try again.")
    return post_entries(drafts_of(found.counted, found.period, where))


def months_that_lost(month: Month) -> list[tuple[Month, Period]]:
    """Closed months before this one that have to be counted anew with its close: attempts held
    cards in them that ended in this month by the platform's fault. One statement where none did."""
    lost = Attempt.objects.filter(
        end_reason__in=_NOT_BILLABLE,
        ended_at__gte=reading.moment_of(month.start_s),
        ended_at__lt=reading.moment_of(month.end_s),
    )
    held = DeviceSegment.objects.filter(attempt__in=lost, start_s__lt=month.start_s)
    first = held.aggregate(first=Min("start_s"))["first"]
    if first is None:
        return []
    names = {"name__gte": str(Month.of(first)), "name__lt": str(month)}
    closed = Period.objects.filter(state=PeriodState.CLOSED, **names).order_by("name")
    return [(Month.parse(period.name), period) for period in closed]


def post_losses(
    late: Iterable[Recount], where: Posting, by: User | None, now: datetime
) -> list[LedgerEntry]:
    """What such months were charged too much, into the month that is being closed."""
    posted: list[LedgerEntry] = []
    for found in late:
        name = found.period.name
        there = replace(where, service_period=name, reason=_LEARNT, is_correction=True)
        entries = post_recount(found, there)
        if entries:
            after = {"entries": len(entries), "booked_in": where.period}
            record(by, "period.correct", found.period, after=after, reason=_LEARNT, now=now)
        posted += entries
    return posted


def drafts_of(counted: Counted, period: Period, where: Posting) -> list[Entry]:
    """What the books of a month lack, all of it at a first close; call inside a transaction.

    Of what goes back to teams later, that for attempts which ended after the month by the
    platform's fault stands apart: a credit of its own, once.
    """
    entries = entries_of(counted.tallies, reading.booked_for(period), where)
    if not where.is_correction or all(entry.debit != RECOVERY for entry in entries):
        return entries
    lost = _lost_of(period)
    return [part for entry in entries for part in _apart(entry, lost)]


def _apart(entry: Entry, lost: Mapping[BookKey, _Charged]) -> Iterator[Entry]:
    """The entry in parts that come to it."""
    if entry.debit != RECOVERY:
        yield entry
        return
    seconds, amount = entry.gpu_seconds, entry.amount
    charged = lost.get(BookKey(entry.credit, entry.sku, entry.rate_id), {})
    for attempt, (its_seconds, its_amount) in sorted(charged.items()):
        if its_seconds <= seconds and its_amount <= amount:
            yield replace(
                entry,
                batch=_batch(attempt, entry.service_period),
                kind=EntryKind.CREDIT,
                amount=its_amount,
                gpu_seconds=its_seconds,
                reason=f"attempt {attempt} ended later by the platform's fault",
            )
            seconds -= its_seconds
            amount = EXACT.subtract(amount, its_amount)
    if seconds or amount:
        yield replace(entry, amount=amount, gpu_seconds=seconds)


def _lost_of(period: Period) -> dict[BookKey, _Charged]:
    """What the month's first close charged teams for attempts that were lost after it was over,
    without those that a credit names already."""
    lines = UsageLine.objects.filter(
        period=period,
        attempt__end_reason__in=_NOT_BILLABLE,
        attempt__ended_at__gte=reading.moment_of(Month.parse(period.name).end_s),
    ).exclude(account=PLATFORM)
    fields = ("attempt_id", "account", "flavour", "kind", "rate_id", "gpu_seconds", "amount")
    found: dict[BookKey, _Charged] = {}
    for attempt, account, flavour, kind, rate_id, seconds, amount in (
        lines.order_by("pk").values_list(*fields).iterator(reading.PAGE)
    ):
        charged = found.setdefault(BookKey(account, f"{flavour}:{kind}", str(rate_id)), {})
        known = charged.get(attempt, (0, ZERO))
        charged[attempt] = (known[0] + seconds, EXACT.add(known[1], amount))
    every = {attempt for charged in found.values() for attempt in charged}
    batches = {_batch(attempt, period.name): attempt for attempt in every}
    done = LedgerEntry.objects.filter(batch__in=batches).values_list("batch", flat=True)
    credited = {batches[batch] for batch in done}
    return {
        key: {attempt: sums for attempt, sums in charged.items() if attempt not in credited}
        for key, charged in found.items()
    }


def _batch(attempt: int, month: str) -> str:
    return f"refund attempt {attempt} of {month}"
