"""What goes back to teams: work a preemption threw away, and losses learnt after a close.

Always entries of their own, of kind credit; a usage line is never negative.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

from django.db.models import Exists, OuterRef

from scheduler.ledger.closing import BookKey, Posting, Tallies, Tally, Window
from scheduler.ledger.entries import PLATFORM, RECOVERY, Entry, EntryKind, posting
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.findings import Finding
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import ChargeKind, Held, rate
from scheduler.ledger.segments import Bucket
from scheduler.ledger.tiers import Intervals
from scheduler.models import Attempt, DeviceSegment, LedgerEntry, UsageLine
from scheduler.selectors.books.terms import terms_of
from scheduler.services.books import reading
from scheduler.states import END_RULES, MADE_TO_MOVE, EndReason

_NOT_BILLABLE = [str(reason) for reason in EndReason if not END_RULES[reason].billable]


def _moment(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def credit_preempted(month: Month, window: Window, tiers: Intervals, tallies: Tallies) -> None:
    """Take off what preempted or resized attempts ran last and had not saved, up to `refund_s`.

    That is set by the pool they were run in: the job may wait for another one by now. Only seconds
    of the month in which the attempt ended, at the prices they were charged.
    """
    most = {pool: terms.refund_s for pool, terms in terms_of(month).items() if terms.refund_s}
    if not most:
        return
    there = DeviceSegment.objects.filter(attempt=OuterRef("pk"), pool__in=most)
    saved = dict(
        Attempt.objects.filter(
            Exists(there),
            end_reason__in=sorted(MADE_TO_MOVE),
            ended_at__gte=_moment(month.start_s),
            ended_at__lt=_moment(month.end_s),
        ).values_list("pk", "checkpoint_at")
    )
    held = reading.held_in(month, tiers, attempts=sorted(saved))
    for holder, pieces in groupby(held, key=lambda piece: piece.holder):
        run = [piece for piece in pieces if piece.bucket is Bucket.RUN]
        if run:
            _credit(run, saved[int(holder)], most, window, tallies)


def _credit(
    run: list[Held],
    saved_at: datetime | None,
    most: Mapping[int, int],
    window: Window,
    tallies: Tallies,
) -> None:
    end_s = min(window.end_s, max(piece.end_s for piece in run))
    saved_s = window.start_s if saved_at is None else math.ceil(saved_at.timestamp())
    lost = [
        replace(piece, start_s=begin_s)
        for piece in run
        if (begin_s := max(piece.start_s, saved_s, end_s - most.get(int(piece.pool), 0)))
        < piece.end_s
    ]
    for line in rate(lost, window.prices, window.start_s, end_s):
        if isinstance(line, Finding) or line.account == PLATFORM or not line.amount:
            continue
        key = BookKey(line.account, f"{line.flavour}:{ChargeKind.REFUND}", line.rate_id)
        tally = tallies.by_key.setdefault(key, Tally(line.unit_price))
        tally.amount = EXACT.subtract(tally.amount, line.amount)
        charged = tallies.charged.get(line.pool, ZERO)
        tallies.charged[line.pool] = EXACT.subtract(charged, line.amount)


def credit_losses(
    where: Posting, currency: str, *, since_s: int, until_s: int, only: str = ""
) -> list[Entry]:
    """Closed months charged teams for attempts that then ended by the platform's fault, later.

    For each such attempt that ended from `since_s` until before `until_s`: what its lines said is
    credited to the team and owed by the platform, in the month of `where`. Once: the batch names
    attempt and month.
    `only`: of this closed month alone.
    """
    lines = UsageLine.objects.filter(
        attempt__end_reason__in=_NOT_BILLABLE,
        attempt__ended_at__gte=_moment(since_s),
        attempt__ended_at__lt=_moment(until_s),
        period__version__gt=0,
    ).exclude(account=PLATFORM)
    lines = lines.filter(period__name=only) if only else lines.exclude(period__name=where.period)
    fields = ("period__name", "attempt_id", "account", "flavour", "kind", "rate_id", "unit_price")
    sums: dict[tuple[Any, ...], tuple[int, Decimal]] = {}
    rows = lines.order_by("pk").values_list(*fields, "gpu_seconds", "amount", "attempt__ended_at")
    for *key, seconds, amount, ended_at in rows.iterator(reading.PAGE):
        if ended_at < _moment(Month.parse(key[0]).end_s):
            continue
        known = sums.get(tuple(key), (0, ZERO))
        sums[tuple(key)] = (known[0] + seconds, EXACT.add(known[1], amount))
    return list(_moves(sums, where, currency))


def _moves(
    sums: Mapping[tuple[Any, ...], tuple[int, Decimal]], where: Posting, currency: str
) -> Iterable[Entry]:
    batches = {key: f"refund attempt {key[1]} of {key[0]}" for key in sums}
    done = LedgerEntry.objects.filter(batch__in=set(batches.values()))
    known = set(done.values_list("batch", flat=True))
    for key in sorted(sums):
        period, attempt, account, flavour, kind, rate_id, unit_price = key
        seconds, amount = sums[key]
        if batches[key] in known:
            continue
        for debit, sign, entry_kind in (
            (account, -1, EntryKind.CREDIT),
            (PLATFORM, 1, EntryKind.CORRECTION),
        ):
            yield posting(
                Entry(
                    batch=batches[key],
                    kind=entry_kind,
                    period=where.period,
                    service_period=period,
                    debit=debit,
                    credit=RECOVERY,
                    amount=amount if sign > 0 else EXACT.minus(amount),
                    currency=currency,
                    sku=f"{flavour}:{kind}",
                    rate_id=str(rate_id),
                    unit_price=unit_price,
                    gpu_seconds=sign * seconds,
                    reason=f"attempt {attempt} ended later by the platform's fault",
                    created_by=where.created_by,
                )
            )
