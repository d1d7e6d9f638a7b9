"""What goes back to teams for work a preemption threw away.

Always entries of their own, of kind credit; a usage line is never negative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from django.db.models import Exists, OuterRef

from scheduler.ledger.closing import BookKey, Tallies, Tally, Window
from scheduler.ledger.entries import PLATFORM
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.findings import Finding
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import ChargeKind, Held, rate
from scheduler.ledger.segments import Bucket
from scheduler.ledger.tiers import Intervals
from scheduler.models import Attempt, DeviceSegment
from scheduler.selectors.books.terms import terms_of
from scheduler.services.books import reading
from scheduler.states import MADE_TO_MOVE


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
            ended_at__gte=reading.moment_of(month.start_s),
            ended_at__lt=reading.moment_of(month.end_s),
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
