"""Lines of a month while it is being closed: written in batches, dropped when a close broke off.

Of two closes of a month the later one goes on: it draws a claim, and every batch, of lines and of
their removal, holds the month's row and looks whether its close's claim still stands.
"""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import Self

from django.db import transaction

from scheduler.ledger.periods import PeriodState
from scheduler.ledger.rating import UsageLine as Line
from scheduler.models import Period, UsageLine
from scheduler.services.errors import Conflict

_BATCH = 5_000
_CLOSING = (PeriodState.SOFT_CLOSED, PeriodState.REOPENED)


@transaction.atomic
def claim_close(period: Period) -> None:
    """Take the close of this month over from whoever was at it.

    Raises Conflict where it is closed already.
    """
    row = Period.objects.select_for_update().get(pk=period.pk)
    if row.state not in _CLOSING:
        raise Conflict(f"{row.name} was closed meanwhile.")
    period.claim = secrets.token_hex(16)
    Period.objects.filter(pk=row.pk).update(claim=period.claim)


def claimed(period: Period) -> Period:
    """The month's row, locked; call inside a transaction.

    Raises Conflict where the claim that `period` carries does not stand any more.
    """
    row = Period.objects.select_for_update().get(pk=period.pk)
    if row.state not in _CLOSING:
        raise Conflict(f"{row.name} was closed meanwhile.")
    if row.claim != period.claim:
        raise Conflict(f"{row.name} is being closed by somebody else; look again in a moment.")
    return row


class LineWriter:
    """Stores lines as they come; a context, so that the last batch is written too.

    Off, it only counts: a month that is counted again keeps the lines of its first close.
    """

    def __init__(self, period: Period, *, is_on: bool) -> None:
        self.count = 0
        self._period = period
        self._is_on = is_on
        self._batch: list[UsageLine] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._write()

    def keep(self, line: Line) -> None:
        """Take one line."""
        self.count += 1
        if not self._is_on:
            return
        self._batch.append(
            UsageLine(
                period_id=self._period.pk,
                attempt_id=int(line.holder) if line.holder.isdecimal() else None,
                holder=line.holder,
                day_s=line.day_s,
                account=line.account,
                pool_id=int(line.pool),
                flavour=line.flavour,
                kind=line.kind,
                rate_id=int(line.rate_id),
                unit_price=line.unit_price,
                gpu_seconds=line.gpu_seconds,
                amount=line.amount,
            )
        )
        if len(self._batch) >= _BATCH:
            self._write()

    def _write(self) -> None:
        if not self._batch:
            return
        with transaction.atomic():
            claimed(self._period)
            UsageLine.objects.bulk_create(self._batch)
        self._batch = []


def drop_lines(period: Period) -> int:
    """Drop what a close that broke off left behind, in batches; returns how many lines."""
    dropped = 0
    while True:
        ids = list(
            UsageLine.objects.filter(period=period)
            .order_by("id")
            .values_list("pk", flat=True)[:_BATCH]
        )
        if not ids:
            return dropped
        with transaction.atomic():
            claimed(period)
            UsageLine.objects.filter(pk__in=ids).delete()
        dropped += len(ids)
