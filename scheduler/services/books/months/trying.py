"""What closing a month would say, before anybody does: counted alike, nothing written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.utils import timezone

from accounts.errors import Forbidden
from accounts.models import User
from accounts.permissions import can
from scheduler.conf import load_conf
from scheduler.ledger.findings import Finding, blocking
from scheduler.ledger.periods import Month, PeriodState, obstacles
from scheduler.models import Adjustment, Period
from scheduler.services.books.closing import first_open_before, month_of
from scheduler.services.books.counting import count_month
from scheduler.services.books.recounting import months_that_lost


@dataclass(frozen=True, slots=True)
class Trial:
    """What a close would find now. `used` is usage alone: no credits, assets or amounts by hand.

    `hours`: GPU-hours of those lines. `waiting`: amounts by hand nobody has decided on.
    """

    month: str
    blocked: tuple[Finding, ...]
    remarks: tuple[Finding, ...]
    lines: int
    hours: Decimal
    used: Decimal
    currency: str
    waiting: int


def require_trier(actor: User, period: str) -> Month:
    """The month; raises Forbidden for who may not read the books, Invalid for what is no month."""
    if not can(actor, "read_books", None):
        raise Forbidden("Only those who keep or audit the books may try to close a month.")
    return month_of(period)


def try_period(*, actor: User, period: str, now: datetime | None = None) -> Trial:
    """Count a month as `close_period` does and say what it would refuse; writes nothing.

    For everybody who may read the books. Raises Forbidden, Invalid for what is no month.
    """
    month = require_trier(actor, period)
    row = Period.objects.filter(name=str(month)).first()
    # A month nobody has touched has no row; the number of none stands for it where rows are read.
    row = row or Period(0, str(month), currency=load_conf().currency, state=PeriodState.OPEN)
    now_s = int((now or timezone.now()).timestamp())
    found = obstacles(
        month, PeriodState(row.state), now_s=now_s, earlier_open=first_open_before(month)
    )
    counted = count_month(month, row)
    earlier = [f for each in months_that_lost(month) for f in count_month(*each).findings]
    blocked = blocking([*found, *counted.findings, *earlier])
    # What has no lines is no use: what goes back, and what a pool has cost beyond it.
    tallies = [tally for tally in counted.tallies.by_key.values() if tally.lines]
    return Trial(
        month=str(month),
        blocked=tuple(blocked),
        remarks=tuple(sorted({f for f in counted.findings if not f.blocks})),
        lines=sum(tally.lines for tally in tallies),
        hours=Decimal(sum(tally.gpu_seconds for tally in tallies)) / 3600,
        used=sum((tally.amount for tally in tallies), Decimal(0)),
        currency=row.currency,
        waiting=Adjustment.objects.filter(decided_at__isnull=True).count(),
    )
