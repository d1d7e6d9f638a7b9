"""The months of the books at a glance, for the head of the finance pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from accounts.errors import Forbidden
from accounts.models import User
from accounts.permissions import can
from scheduler.conf import load_conf
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.periods import Month, PeriodState
from scheduler.models import Adjustment, Period, PeriodClose, Reconciliation

_MONTHS = 24


@dataclass(frozen=True, slots=True)
class MonthRow:
    """A month: where it stands, and for those who keep the books its control total."""

    name: str
    state: str
    version: int
    currency: str
    control: Decimal | None
    closed_at: datetime | None
    findings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Overview:
    """`is_bookkeeper` tells whether totals and open matters are in it."""

    is_bookkeeper: bool
    current: str
    months: Sequence[MonthRow]
    open_adjustments: int


def books_overview(viewer: User, now: datetime) -> Overview:
    """The last two years of months; three statements at most."""
    keeps = can(viewer, "read_books", None)
    current = str(Month.of(int(now.timestamp())))
    closes: dict[int, PeriodClose] = {}
    periods = list(Period.objects.order_by("-name")[:_MONTHS])
    for close in PeriodClose.objects.filter(period__in=[p.pk for p in periods]).order_by("version"):
        closes[close.period_id] = close
    months = [_row(period, closes.get(period.pk), keeps) for period in periods]
    if current not in {month.name for month in months}:
        currency = load_conf().currency
        state = str(PeriodState.OPEN)
        months.insert(0, MonthRow(current, state, 0, currency, None, None, ()))
    waiting = Adjustment.objects.filter(decided_at__isnull=True).count() if keeps else 0
    return Overview(keeps, current, months, waiting)


def _row(period: Period, close: PeriodClose | None, keeps: bool) -> MonthRow:
    return MonthRow(
        period.name,
        period.state,
        period.version,
        period.currency,
        from_minor(close.control, period.currency) if close and keeps else None,
        close.closed_at if close else None,
        tuple(close.findings) if close and keeps else (),
    )


def reconciliation(viewer: User) -> Reconciliation | None:
    """What the last nightly run said, None before the first. Raises Forbidden."""
    if not can(viewer, "read_books", None):
        raise Forbidden(
            "Only those who keep or audit the books may see this. Ask an administrator."
        )
    return Reconciliation.objects.order_by("-pk").first()
