"""What pools cost, and what of it was recovered; for those who keep or audit the books."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet

from accounts.errors import Conflict, Forbidden, NotFound
from accounts.models import User
from accounts.models.rows import as_rows, rows_in
from accounts.permissions import can
from scheduler.ledger.costs.assets import Plan
from scheduler.ledger.costs.recovery import Recovery
from scheduler.ledger.currencies import exponent_of, from_minor
from scheduler.ledger.exact import EXACT, half_even, total
from scheduler.ledger.periods import Month
from scheduler.models import Asset, Period, PeriodClose, Pool, PoolCost

_MONTHS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """A pool's closed month: what it has cost, what was charged by lines, and the difference.

    `mode`: by rates, or by cost; then what is missing was shared among those who ran.
    """

    pool: str
    mode: str
    cost: Decimal
    charged: Decimal
    variance: Decimal
    percent: Decimal | None
    run_seconds: int
    effective_rate: Decimal | None


def _require(viewer: User) -> None:
    if not can(viewer, "read_books", None):
        raise Forbidden("Only those who keep or audit the books may see this.")


def recovery(viewer: User, period: str = "") -> list[RecoveryRow]:
    """By pool, as the month's last close found it; without a month that of the last closed one.

    Raises Forbidden, NotFound, Conflict for a month that is not closed.
    """
    _require(viewer)
    close = _last_close(period)
    if close is None and not period:
        return []
    if close is None and not Period.objects.filter(name=period).exists():
        raise NotFound("There are no books for this month.")
    if close is None:
        raise Conflict(f"{period} is not closed yet; this comes with the close.")
    return _recovered(close)


def recovered_month(viewer: User, wish: str = "") -> tuple[str, list[str], list[RecoveryRow]]:
    """The closed month to show, `wish` if it is one, all closed ones, the latest first, and what
    came back in it.

    The month is empty where none was closed. Two statements. Raises Forbidden.
    """
    _require(viewer)
    closed = PeriodClose.objects.values_list("period__name", flat=True).distinct()
    months = sorted(closed.order_by(), reverse=True)
    if not months:
        return "", [], []
    month = wish if wish in months else months[0]
    close = _last_close(month)
    return month, months, _recovered(close) if close else []


def all_together(rows: Sequence[RecoveryRow]) -> Recovery | None:
    """All pools as one, where there are several."""
    if len(rows) < 2:
        return None
    run_seconds = {row.pool: row.run_seconds for row in rows}
    cost, charged = total(row.cost for row in rows), total(row.charged for row in rows)
    return Recovery("", cost, charged, run_seconds, by_cost=False)


def _last_close(period: str) -> Any:
    """The last one of a month, else of all, with the names of pools."""
    closes = PeriodClose.objects.annotate(pools=as_rows(Pool.objects.order_by(), "pk", "name"))
    if period:
        return closes.filter(period__name=period).order_by("-version").first()
    return closes.order_by("-pk").first()


def _recovered(close: Any) -> list[RecoveryRow]:
    names = {str(pk): name for pk, name in rows_in(close.pools)}
    return [
        RecoveryRow(
            pool=names.get(note["pool"], note["pool"]),
            mode=note["mode"],
            cost=Decimal(note["cost"]),
            charged=Decimal(note["charged"]),
            variance=Decimal(note["variance"]),
            percent=None if note["percent"] is None else Decimal(note["percent"]),
            run_seconds=note["run_seconds"],
            effective_rate=None
            if note["effective_rate"] is None
            else Decimal(note["effective_rate"]),
        )
        for note in close.recovery
    ]


def assets_so_far(viewer: User) -> QuerySet[Asset]:
    """All assets, the newest first."""
    _require(viewer)
    people = ("proposed_by", "decided_by", "retire_proposed_by", "retired_by")
    return Asset.objects.select_related("pool", *people).order_by("-pk")


def costs_so_far(viewer: User) -> QuerySet[PoolCost]:
    """All other costs, the newest first."""
    _require(viewer)
    found = PoolCost.objects.select_related("pool", "proposed_by", "decided_by")
    return found.order_by("-pk")


def get_visible_asset(viewer: User, pk: int) -> Asset:
    """One asset; raises NotFound, also for those who may not see it."""
    found = Asset.objects.select_related("pool", "retire_proposed_by").filter(pk=pk).first()
    if found is None or not can(viewer, "read_books", None):
        raise NotFound("There is no such asset.")
    return found


@dataclass(frozen=True, slots=True)
class Leaving:
    """What an asset has written off before a day, and what is given up if it leaves on it."""

    on: date
    written_off: Decimal
    given_up: Decimal


def plan_of(asset: Asset) -> Plan:
    """An asset as it is written off."""
    return Plan(asset.cost, asset.residual, asset.since, asset.months, asset.retired_on)


def ways_to_leave(asset: Asset, *, today: date) -> list[Leaving]:
    """If it left today, or with one of the next months; not before it is in use. Both figures add
    up to what is written off of it in all."""
    month, days = Month(today.year, today.month), [today]
    for _ in range(_MONTHS_SHOWN):
        month = month.following
        days.append(date(month.year, month.month, 1))
    return [_leaving(asset, on) for on in days if on >= asset.since]


def _leaving(asset: Asset, on: date) -> Leaving:
    plan = replace(plan_of(asset), until=on)
    units = half_even(plan.given_up_by(on), exponent_of(asset.currency))
    given_up = from_minor(units, asset.currency)
    return Leaving(on, EXACT.subtract(plan.value, given_up), given_up)


def get_visible_cost(viewer: User, pk: int) -> PoolCost:
    """One cost; raises NotFound, also for those who may not see it."""
    found = PoolCost.objects.select_related("pool").filter(pk=pk).first()
    if found is None or not can(viewer, "read_books", None):
        raise NotFound("There is no such cost.")
    return found
