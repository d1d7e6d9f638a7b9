"""What those who keep the books decide on: months, amounts by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Case, Q, QuerySet, When

from accounts.errors import Forbidden, NotFound
from accounts.models import Rate, User
from accounts.permissions import can
from scheduler.conf import load_conf
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.periods import Month, PeriodState
from scheduler.models import (
    Adjustment,
    Counting,
    DeviceSegment,
    Period,
    PeriodClose,
    PricePreview,
)

_TOLD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Close:
    """One version of a closed month."""

    version: int
    at: datetime
    by: str
    control: Decimal
    lines: int
    head_number: int
    head_hash: str
    findings: Sequence[str]


@dataclass(frozen=True, slots=True)
class MonthDesk:
    """A month and what can be done with it; `period` is not saved for one nobody has touched.

    `is_over`: it lies before now. `closes`: the latest first. `closes_at`: when it closes by
    itself, None where it does not. `counting`: the latest that is asked for or ended within a day.
    """

    period: Period
    is_over: bool
    closes: tuple[Close, ...]
    closes_at: datetime | None
    counting: Counting | None = None

    @property
    def is_open(self) -> bool:
        return self.period.state == PeriodState.OPEN

    @property
    def is_closed(self) -> bool:
        return self.period.state == PeriodState.CLOSED

    @property
    def is_counting(self) -> bool:
        """Whether it waits to be counted; nothing else is done with it meanwhile."""
        return self.counting is not None and self.counting.is_waiting

    @property
    def may_close(self) -> bool:
        """By the calendar; what else is in the way the close itself says."""
        return self.is_over and not self.is_closed


def require_reader(viewer: User) -> None:
    """Raises Forbidden for those who may not read the books."""
    if not can(viewer, "read_books", None):
        raise Forbidden("Only those who keep or audit the books may look at this.")


def month_names(viewer: User, *, now: datetime) -> list[str]:
    """Every month from the first segment until now, the latest first; two queries."""
    require_reader(viewer)
    here = Month.of(int(now.timestamp()))
    first = DeviceSegment.objects.order_by("pk").values_list("start_s", flat=True).first()
    names = {*Period.objects.values_list("name", flat=True), str(here)}
    month = Month.of(first) if first is not None else here
    while month < here:
        names.add(str(month))
        month = month.following
    return sorted(names, reverse=True)


def month_desks(viewer: User, names: Sequence[str], *, now: datetime) -> list[MonthDesk]:
    """Of these months, in their order; three queries."""
    require_reader(viewer)
    here = Month.of(int(now.timestamp()))
    known = Period.objects.select_related("reopen_proposed_by").filter(name__in=names)
    rows = {row.name: row for row in known}
    closes: dict[int, list[PeriodClose]] = {}
    found = PeriodClose.objects.filter(period__in=rows.values()).select_related("closed_by")
    for close in found.order_by("-version"):
        closes.setdefault(close.period_id, []).append(close)
    countings = {row.month: row for row in _countings(now).filter(month__in=names)}
    return [
        _desk(rows.get(name) or _blank(name), closes, here, countings.get(name)) for name in names
    ]


def _countings(now: datetime) -> QuerySet[Counting]:
    """Those that wait or ended within a day, the latest last."""
    is_new = Q(ended_at=None) | Q(ended_at__gt=now - _TOLD)
    return Counting.objects.filter(is_new).select_related("asked_by").order_by("pk")


def _blank(name: str) -> Period:
    return Period(name=name, state=PeriodState.OPEN, currency=load_conf().currency)


def _desk(
    period: Period,
    closes: dict[int, list[PeriodClose]],
    here: Month,
    counting: Counting | None,
) -> MonthDesk:
    shown = tuple(
        Close(
            version=close.version,
            at=close.closed_at,
            by=close.closed_by.get_full_name() if close.closed_by else "",
            control=from_minor(close.control, period.currency),
            lines=close.lines,
            head_number=close.head_number,
            head_hash=close.head_hash,
            findings=tuple(close.findings),
        )
        for close in closes.get(period.pk or 0, [])
    )
    month = Month.parse(period.name)
    ahead = load_conf().closing.ahead(month, PeriodState(period.state))
    return MonthDesk(period, month < here, shown, ahead, counting)


def adjustments_for(viewer: User) -> QuerySet[Adjustment]:
    """The latest first, those that wait before the decided ones."""
    require_reader(viewer)
    rows = Adjustment.objects.select_related(
        "project__team", "proposed_by", "decided_by", "entry__period"
    )
    return rows.order_by(Case(When(decided_at=None, then=0), default=1), "-pk")


def get_adjustment(viewer: User, pk: int) -> Adjustment:
    """Raises NotFound; Forbidden for those who may not read the books."""
    require_reader(viewer)
    found = Adjustment.objects.filter(pk=pk).first()
    if found is None:
        raise NotFound("There is no such amount.")
    return found


def price_previews(viewer: User, rates: Sequence[Rate]) -> dict[int, PricePreview]:
    """By rate, what was last found that it moves; one query, none where no rate is of the past."""
    require_reader(viewer)
    asked = [rate.pk for rate in rates if rate.is_restatement]
    rows = PricePreview.objects.filter(rate__in=asked).order_by("pk") if asked else ()
    return {row.rate_id: row for row in rows}


def price_countings(viewer: User, rates: Sequence[Rate], *, now: datetime) -> dict[int, Counting]:
    """By rate, what it would move as it is being counted; one query, none without such a rate."""
    require_reader(viewer)
    asked = [rate.pk for rate in rates if rate.is_restatement]
    rows = _countings(now).filter(rate__in=asked) if asked else ()
    return {row.rate_id: row for row in rows if row.rate_id is not None}
