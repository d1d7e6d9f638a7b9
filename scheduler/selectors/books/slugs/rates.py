"""What each kind of use was charged at which prices, against what its pools have cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Sum

from scheduler.ledger.entries import ROUNDING
from scheduler.ledger.exact import EXACT, ZERO, total
from scheduler.ledger.rating import is_recovery
from scheduler.models import LedgerEntry, UsageLine
from scheduler.selectors.books.adding import Adds
from scheduler.selectors.books.frame import (
    Ask,
    Bars,
    Cells,
    Check,
    Column,
    Drill,
    Form,
    Report,
    Sheet,
    Who,
    sheet_of,
    totals_of,
)
from scheduler.selectors.books.months import Books, Effect, effects
from scheduler.selectors.books.scope import Scope

_PLACES = Decimal("0.000001")
_BY_COST = (
    "Charged is what lines say. Where a pool is paid by cost, those who ran share what is missing; "
    "that stands in the period summary."
)
_UNCOSTED = "No cost of a pool was booked in this month: all that was charged stands as over cost."
NOTHING_RAN = "(nothing ran)"
_VARIANCE = (
    Column("sku", "Charged for"),
    Column("gpu_seconds", "GPU-h", Form.SECONDS, is_summed=True),
    Column(
        "charged", "Charged", Form.AMOUNT, is_summed=True, drill=Drill("job-cost", {"sku": "sku"})
    ),
    Column("platform", "Paid by the platform", Form.AMOUNT, is_summed=True),
    Column("pool_cost", "Pool cost", Form.AMOUNT, is_summed=True),
    Column("variance", "Over (+) or under cost", Form.AMOUNT, is_summed=True),
    Column("recovery_percent", "Recovered", Form.PERCENT),
    Column("teams_percent", "Paid by teams", Form.PERCENT),
    Column("mean_price", "Mean per GPU-h", Form.PRICE),
    Column("lowest_price", "Lowest", Form.PRICE, is_detail=True),
    Column("highest_price", "Highest", Form.PRICE, is_detail=True),
    Column("prices", "Prices in force"),
    Column("currency", "Currency", is_file_only=True),
)


@dataclass(frozen=True, slots=True)
class _Sku:
    """What a SKU came to. `seconds` and amounts are those of the ledger."""

    seconds: int
    charged: Decimal
    platform: Decimal
    prices: tuple[Decimal, ...]


def _rate_variance(ask: Ask, scope: Scope) -> Sheet:
    """By SKU: what was charged at which prices, and what of the pools' cost that brought back.

    A pool's cost of the month (as its close found it) is the SKUs' by the seconds their lines have
    in the pool; a pool in which nothing ran has a row of its own.
    """
    books = scope.books(ask.period)
    entries = []
    if books.period is not None:
        entries = list(LedgerEntry.objects.filter(period=books.period).order_by("number"))
    found = list(effects(entries, None))
    skus = _by_sku(found)
    costs = _costs(books)
    rows = [
        _row(sku, skus.get(sku), costs.get(sku, ZERO), books.currency)
        for sku in sorted({*skus, *costs})
    ]
    sums = totals_of(_VARIANCE, rows)
    shown = EXACT.add(Decimal(sums["charged"]), Decimal(sums["platform"]))
    used = total(e.amount for e in found if _is_priced(e))
    rest = total(e.amount for e in found if not _is_priced(e) and ROUNDING not in e.account)
    owed = total(e.amount for e in found)
    checks = [
        Check("charged equals ledger", shown, used, books.currency),
        Check("with adjustments equals ledger", EXACT.add(shown, rest), owed, books.currency),
        Check("pool cost equals the close", sums["pool_cost"], _cost_of(books), books.currency),
    ]
    remarks = (_BY_COST, *books.remarks)
    if books.close is not None and sums["charged"] and not sums["pool_cost"]:
        remarks = (_UNCOSTED, *remarks)
    return sheet_of(
        _VARIANCE, rows, ask, checks, currency=books.currency, version=books.version,
        state=books.state, remarks=remarks,
    )  # fmt: skip


def _is_priced(effect: Effect) -> bool:
    """Whether it is of a model of GPU: what is missing to a pool's cost is of a whole pool."""
    return bool(effect.entry.sku) and not is_recovery(effect.entry.sku)


def _by_sku(found: list[Effect]) -> dict[str, _Sku]:
    grouped: dict[str, list[Effect]] = {}
    for effect in found:
        if _is_priced(effect):
            grouped.setdefault(effect.entry.sku, []).append(effect)
    return {
        sku: _Sku(
            sum(effect.gpu_seconds for effect in of_it),
            total(effect.amount for effect in of_it if effect.account != "platform"),
            total(effect.amount for effect in of_it if effect.account == "platform"),
            tuple(sorted({effect.entry.unit_price for effect in of_it})),
        )
        for sku, of_it in grouped.items()
    }


def _cost_of(books: Books) -> Decimal:
    """What all pools have cost, as the last close found it."""
    notes = books.close.recovery if books.close is not None else []
    return total(Decimal(note["cost"]) for note in notes)


def _costs(books: Books) -> dict[str, Decimal]:
    """Each SKU's part of what its pools have cost; one statement, none without costs."""
    notes = books.close.recovery if books.close is not None else []
    costs = {int(note["pool"]): Decimal(note["cost"]) for note in notes if Decimal(note["cost"])}
    found: dict[str, Decimal] = {}
    if not costs:
        return found
    seconds: dict[int, dict[str, int]] = {}
    lines = UsageLine.objects.filter(period=books.period, pool__in=list(costs)).order_by()
    grouped = lines.values_list("pool_id", "flavour", "kind").annotate(Sum("gpu_seconds"))
    for pool, flavour, kind, held in grouped:
        seconds.setdefault(pool, {})[f"{flavour}:{kind}"] = held
    for pool, cost in costs.items():
        for sku, part in split(cost, seconds.get(pool, {})).items():
            found[sku] = EXACT.add(found.get(sku, ZERO), part)
    return found


def split(cost: Decimal, weights: Mapping[str, int]) -> dict[str, Decimal]:
    """The cost by weights, to six places; the parts add up to it exactly."""
    whole, so_far, given = sum(weights.values()), 0, ZERO
    if not whole:
        return {NOTHING_RAN: cost}
    parts = {}
    for sku in sorted(weights):
        so_far += weights[sku]
        until = cost if so_far == whole else (cost * so_far / whole).quantize(_PLACES)
        parts[sku], given = EXACT.subtract(until, given), until
    return parts


def _row(sku: str, found: _Sku | None, cost: Decimal, currency: str) -> Cells:
    if found is None:
        nothing = (None, None, None, None, "")
        return (sku, 0, ZERO, ZERO, cost, EXACT.minus(cost), ZERO, *nothing, currency)
    worth = EXACT.add(found.charged, found.platform)
    mean = (worth * 3600 / found.seconds).quantize(_PLACES) if found.seconds else None
    words = ", ".join(format(price.normalize(), "f") for price in found.prices)
    return (
        sku,
        found.seconds,
        found.charged,
        found.platform,
        cost,
        EXACT.subtract(found.charged, cost),
        _percent(found.charged, cost),
        _percent(found.charged, worth),
        mean,
        found.prices[0],
        found.prices[-1],
        words,
        currency,
    )


def _percent(part: Decimal, whole: Decimal) -> Decimal | None:
    return (part * 100 / whole).quantize(Decimal("0.01")) if whole else None


REPORTS = (
    Report(
        "rate-variance",
        "Rates and recovery",
        "What each kind of use was charged at which prices, against what its pools have cost.",
        "kind of use",
        _VARIANCE,
        Who.BOOKS,
        _rate_variance,
        chart=("sku", "charged"),
        bars=(Bars(("charged", "platform"), ("pool_cost",)),),
        adds=(Adds("charged", ("variance",), ("pool_cost",)),),
    ),
)
