"""Splitting what cannot be split evenly: whole seconds among accounts, cents among statements.

Largest remainder (Hamilton's method): everyone gets the floor of an exact quota, the units left
over go to the largest fractions, ties to the smaller name. Floors go towards minus infinity, so the
same rule serves credits. Nothing is lost, nothing depends on the order of the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import cycle, islice
from math import floor

from scheduler.ledger.exact import EXACT
from scheduler.ledger.findings import Finding, Trouble

UNASSIGNED = "unassigned"
RATIO_PLACES = 12
# A second has digits in four decimals of an hour.
_MOST_PLACES, _HOUR_S = 4, 3600
_FLOOR = Context(prec=60, rounding=ROUND_FLOOR)


class IdlePolicy(StrEnum):
    """Who pays for what nobody held: nobody, all alike, by use, by guarantee, or a mixture."""

    NONE = "none"
    EVEN = "even"
    BY_USE = "by_use"
    BY_GUARANTEE = "by_guarantee"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Weights:
    """What a split is weighed by, per account, in whole seconds; kept beside the result.

    `used` are run seconds by project, `guaranteed` quota seconds by team. Accounts are those that
    used something, and teams that were guaranteed something and used nothing.
    """

    used: Mapping[str, int]
    guaranteed: Mapping[str, int]

    @property
    def accounts(self) -> list[str]:
        seen = {name.partition("/")[0] for name in self.used}
        return sorted({*self.used, *(name for name in self.guaranteed if name not in seen)})


def largest_remainder(pool: int, weights: Mapping[str, int]) -> dict[str, int]:
    """`pool` in proportion to `weights`; the parts are integers and add up to it exactly.

    Raises ValueError for a negative weight and where all weights are 0.
    """
    if any(weight < 0 for weight in weights.values()):
        raise ValueError("a weight is negative")
    whole = sum(weights.values())
    if whole == 0:
        raise ValueError("all weights are 0; nobody can be given a share")
    parts: dict[str, int] = {}
    rests: list[tuple[int, str]] = []
    for name, weight in weights.items():
        parts[name], rest = divmod(pool * weight, whole)
        rests.append((-rest, name))
    rests.sort()
    for _, name in rests[: pool - sum(parts.values())]:
        parts[name] += 1
    return parts


def rounded_to(target: int, parts: Sequence[Fraction]) -> list[int]:
    """Parts as whole numbers that add up to `target`, so that a row adds up as it is printed.

    Each is the one below it or the next, by largest remainder, where `target` is their sum, rounded
    either way; what is nothing stays nothing. Ties go to the first.
    """
    found = [floor(part) for part in parts]
    order = [place for place, part in enumerate(parts) if part]
    order.sort(key=lambda place: found[place] - parts[place])
    missing = target - sum(found)
    step, places = (1, order) if missing > 0 else (-1, order[::-1])
    for place in islice(cycle(places), abs(missing)):
        found[place] += step
    return found


def rounded(value: Fraction) -> int:
    """The nearest whole number, halves away from zero."""
    return floor(value + Fraction(1, 2)) if value >= 0 else -floor(Fraction(1, 2) - value)


def places_that_add_up(gpu_seconds: Iterable[int | Decimal | None], places: int) -> int:
    """The decimals of GPU-hours that are added up: so many or, where the smallest of them would be
    rounded down to nothing, as many as it needs."""
    found = [abs(Decimal(each)) for each in gpu_seconds if each]
    while found and places < _MOST_PLACES and min(found) * 10**places < _HOUR_S:
        places += 1
    return places


def share_out(
    pool: int, policy: IdlePolicy, weights: Weights, *, subject: str, guarantee_percent: int = 50
) -> tuple[dict[str, int], list[Finding]]:
    """Seconds per account under a policy, and a remark where nobody can be charged.

    Empty for NONE. What has no weights goes to `unassigned`. `guarantee_percent` is for HYBRID.
    """
    if policy is IdlePolicy.NONE or pool == 0:
        return {}, []
    if policy is IdlePolicy.HYBRID:
        if not 0 <= guarantee_percent <= 100:
            raise ValueError("guarantee_percent is a whole number from 0 to 100")
        percents = {"guaranteed": guarantee_percent, "used": 100 - guarantee_percent}
        halves = largest_remainder(pool, percents)
        parts = [(halves["guaranteed"], weights.guaranteed), (halves["used"], weights.used)]
    elif policy is IdlePolicy.EVEN:
        parts = [(pool, dict.fromkeys(weights.accounts, 1))]
    else:
        is_use = policy is IdlePolicy.BY_USE
        parts = [(pool, weights.used if is_use else weights.guaranteed)]
    shares: dict[str, int] = {}
    findings: list[Finding] = []
    for seconds, by in parts:
        if seconds and not any(by.values()):
            findings.append(
                Finding(
                    Trouble.NO_WEIGHTS,
                    subject,
                    f"{seconds} s cannot be split by {policy}: no account has a weight; they stay "
                    f"in {UNASSIGNED}",
                )
            )
            by = {UNASSIGNED: 1}
        if seconds:
            for name, part in largest_remainder(seconds, by).items():
                shares[name] = shares.get(name, 0) + part
    return {name: part for name, part in shares.items() if part}, findings


def ratios(shares: Mapping[str, int]) -> dict[str, Decimal]:
    """Shares as decimals of twelve places that add up to exactly 1."""
    parts = largest_remainder(10**RATIO_PLACES, shares)
    return {name: Decimal(part).scaleb(-RATIO_PLACES, EXACT) for name, part in parts.items()}


def spread(units: int, exact: Mapping[str, Decimal], exponent: int) -> dict[str, int]:
    """`units` of 10**-exponent over amounts they are the rounded sum of; also of negative ones.

    Everyone gets the floor of the own amount; what is left over goes to the largest fractions, ties
    to the smaller name. So each part differs from its amount by less than one unit. Raises
    ValueError where `units` are not within one unit of the amounts' sum.
    """
    parts: dict[str, int] = {}
    rests: list[tuple[Decimal, str]] = []
    for name, amount in exact.items():
        scaled = amount.scaleb(exponent, EXACT)
        floor = scaled.to_integral_value(context=_FLOOR)
        parts[name] = int(floor)
        rests.append((EXACT.subtract(floor, scaled), name))
    rests.sort()
    left = units - sum(parts.values())
    if not 0 <= left <= sum(1 for rest, _ in rests if rest):
        raise ValueError(f"{units} units are not the rounded sum of these amounts")
    for _, name in rests[:left]:
        parts[name] += 1
    return parts
