"""What a pool has cost against what was charged for it, and how cost recovery closes the gap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from scheduler.ledger.exact import AMOUNT_PLACES, EXACT, gpu_hours
from scheduler.ledger.findings import Finding, Trouble
from scheduler.ledger.shares import largest_remainder

_RATIO = Context(prec=60, rounding=ROUND_HALF_EVEN)
_PRICE_STEP = Decimal("0.000001")
_PERCENT_STEP = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Recovery:
    """A pool's month. `by_cost`: teams pay what it has cost, not price times time."""

    pool: str
    cost: Decimal
    charged: Decimal
    run_seconds: Mapping[str, int]
    by_cost: bool

    @property
    def variance(self) -> Decimal:
        """Charged less cost: above nothing, more came in than the pool has cost."""
        return EXACT.subtract(self.charged, self.cost)

    @property
    def effective_rate(self) -> Decimal | None:
        """Cost by GPU-hour that was run for teams, six places; None where nothing ran."""
        seconds = sum(self.run_seconds.values())
        if not seconds:
            return None
        return _RATIO.divide(self.cost, gpu_hours(seconds)).quantize(_PRICE_STEP, context=_RATIO)

    @property
    def percent(self) -> Decimal | None:
        """Charged in percent of cost, two places; None where it has cost nothing."""
        if not self.cost:
            return None
        whole = _RATIO.divide(EXACT.multiply(self.charged, Decimal(100)), self.cost)
        return whole.quantize(_PERCENT_STEP, context=_RATIO)


def to_recover(pool: Recovery) -> tuple[dict[str, Decimal], list[Finding]]:
    """What each account owes beyond its lines (or, negative, is owed) so that cost is met exactly.

    In proportion to seconds run, by largest remainder of amounts of fifteen places. Nothing where
    the pool is paid by rates; a remark where nobody ran anything.
    """
    gap = EXACT.minus(pool.variance)
    if not pool.by_cost or not gap:
        return {}, []
    if not any(pool.run_seconds.values()):
        words = f"has cost {pool.cost} and nobody ran anything on it; that is recovered from nobody"
        return {}, [Finding(Trouble.NO_WEIGHTS, f"pool {pool.pool}", words)]
    units = int(gap.scaleb(AMOUNT_PLACES, EXACT))
    parts = largest_remainder(units, pool.run_seconds)
    return {
        account: Decimal(part).scaleb(-AMOUNT_PLACES, EXACT)
        for account, part in sorted(parts.items())
        if part
    }, []
