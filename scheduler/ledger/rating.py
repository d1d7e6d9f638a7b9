"""Segments to lines: quantity times price, split wherever anything of a line changes.

The only place where a price meets seconds. A line is one holder, UTC day, account, flavour, kind
and rate; its devices' seconds are added first and priced once. What has no price is a finding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from itertools import groupby

from scheduler.ledger.entries import team_of
from scheduler.ledger.exact import checked_price, gpu_hours, times
from scheduler.ledger.findings import Finding, Trouble
from scheduler.ledger.segments import Bucket

DAY_S = 86_400
BORROWED = "borrowed"


class ChargeKind(StrEnum):
    """What is charged for; with the flavour it makes the SKU."""

    RUN = "run-guaranteed"
    RUN_BORROWED = "run-borrowed"
    OVERHEAD = "overhead"
    UNREACHABLE = "unreachable"
    RESERVED_IDLE = "reserved-idle"
    IDLE_SHARE = "idle-share"
    PLATFORM_SHARE = "platform-share"
    COST_RECOVERY = "cost-recovery"
    REFUND = "refund"


def is_recovery(sku: str) -> bool:
    """Whether an entry's SKU stands for what was missing to a pool's cost: `pool id:cost-recovery`,
    where all others begin with a model of GPU."""
    return sku.endswith(f":{ChargeKind.COST_RECOVERY}")


# Kinds that the general price of a flavour covers; shares need a price of their own.
_GENERAL = frozenset(
    {ChargeKind.RUN, ChargeKind.RUN_BORROWED, ChargeKind.OVERHEAD, ChargeKind.UNREACHABLE}
)


def kind_of(bucket: Bucket, tier: str = "") -> ChargeKind | None:
    """What a holder's bucket is charged as; None for what nobody is charged directly."""
    if bucket is Bucket.RUN:
        return ChargeKind.RUN_BORROWED if tier == BORROWED else ChargeKind.RUN
    return {
        Bucket.OVERHEAD: ChargeKind.OVERHEAD,
        Bucket.UNREACHABLE: ChargeKind.UNREACHABLE,
        Bucket.RESERVED_IDLE: ChargeKind.RESERVED_IDLE,
    }.get(bucket)


@dataclass(frozen=True, slots=True)
class Price:
    """A rate of `[from_s, until_s)`, or until the next of its card, flavour, kind and priority.

    An empty `kind` is the general price of the flavour, an empty `flavour` the fallback for all.
    `team` is the account of the team whose card it is on, empty for the organisation's list.
    """

    id: str
    flavour: str
    kind: str
    per_gpu_hour: Decimal
    currency: str
    from_s: int
    until_s: int | None = None
    priority: int = 0
    team: str = ""
    card: str = ""


class _Times:
    """Which of the prices of one card, flavour and kind holds when."""

    def __init__(self, prices: Sequence[Price]) -> None:
        ends = {price.until_s for price in prices if price.until_s is not None}
        self.moments = sorted({price.from_s for price in prices} | ends)
        self._found = [_winner(prices, moment) for moment in self.moments]

    def at(self, at_s: int) -> Price | None:
        """The price of a moment."""
        place = bisect_right(self.moments, at_s)
        return self._found[place - 1] if place else None


def _winner(prices: Sequence[Price], at_s: int) -> Price | None:
    """The higher priority, then the later begin, then the later decision (the order they come)."""
    held = [
        (price.priority, price.from_s, number, price)
        for number, price in enumerate(prices)
        if price.from_s <= at_s and (price.until_s is None or at_s < price.until_s)
    ]
    return max(held)[3] if held else None


class PriceList:
    """Prices in memory. Whose card comes first: the account's team's, then that of the team above
    it, at last the list. Of a card the more particular one wins: flavour and kind, flavour, kind,
    general; of those that hold then the higher priority, then the later begin.

    `prices` come in the order in which they were decided: of two from one second on the last one
    holds, as in a restatement. Their ids say nothing, as texts 9 is greater than 10. `ways` gives
    the accounts of a team and those above it, from itself up.
    """

    def __init__(
        self, prices: Iterable[Price], ways: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        by_key: dict[tuple[str, str, str], list[Price]] = {}
        for price in prices:
            checked_price(price.per_gpu_hour, f"rate {price.id}")
            if price.until_s is None or price.from_s < price.until_s:
                by_key.setdefault((price.team, price.flavour, price.kind), []).append(price)
        self._times = {key: _Times(found) for key, found in by_key.items()}
        self._ways = ways or {}
        self._known: dict[tuple[str, ChargeKind, str], list[_Times]] = {}

    def _of(self, flavour: str, kind: ChargeKind, account: str) -> list[_Times]:
        """What is looked at for an account, the first first; remembered, as it is asked often."""
        asked = (flavour, kind, team_of(account))
        if asked not in self._known:
            keys = [(flavour, kind), (flavour, ""), ("", kind), ("", "")]
            if kind not in _GENERAL:
                keys = [(flavour, kind), ("", kind)]
            owners = (*self._ways.get(asked[2], asked[2:]), "")
            every = [(owner, *key) for owner in owners for key in keys]
            self._known[asked] = [self._times[key] for key in every if key in self._times]
        return self._known[asked]

    def at(self, flavour: str, kind: ChargeKind, at_s: int, account: str = "") -> Price | None:
        """The price of a moment for who pays, or None: never a price of nothing.

        Without an account: what the organisation's list says.
        """
        for one in self._of(flavour, kind, account):
            price = one.at(at_s)
            if price is not None:
                return price
        return None

    def changes(
        self, flavour: str, kind: ChargeKind, start_s: int, end_s: int, account: str = ""
    ) -> list[int]:
        """Moments inside a window at which the price may change."""
        return sorted(
            moment
            for one in self._of(flavour, kind, account)
            for moment in one.moments
            if start_s < moment < end_s
        )


@dataclass(frozen=True, slots=True)
class Held:
    """A segment as rating needs it; `account` pays, None: nobody knows who."""

    holder: str
    account: str | None
    pool: str
    flavour: str
    bucket: Bucket
    tier: str
    start_s: int
    end_s: int


@dataclass(frozen=True, slots=True)
class UsageLine:
    """Seconds of one holder, UTC day, account, flavour, kind and rate, and their exact amount."""

    holder: str
    day_s: int
    account: str
    pool: str
    flavour: str
    kind: ChargeKind
    rate_id: str
    unit_price: Decimal
    currency: str
    gpu_seconds: int
    gpu_hours: Decimal
    amount: Decimal


def cut(start_s: int, end_s: int, changes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The pieces of `[start_s, end_s)` between UTC midnights and these moments, in order."""
    while start_s < end_s:
        until = min(end_s, start_s - start_s % DAY_S + DAY_S)
        place = bisect_right(changes, start_s)
        if place < len(changes):
            until = min(until, changes[place])
        yield start_s, until
        start_s = until


def rate(
    segments: Iterable[Held], prices: PriceList, start_s: int, end_s: int
) -> Iterator[UsageLine | Finding]:
    """Lines of a window, holder by holder; segments come grouped by holder. Constant memory.

    Pieces outside the window are clipped. A piece without a price or without a payer gives a
    finding instead of a line.
    """
    for _, group in groupby(segments, key=lambda segment: segment.holder):
        seconds: dict[tuple[int, str, str, str, ChargeKind, Price], int] = {}
        for segment in group:
            yield from _collect(segment, prices, start_s, end_s, seconds, segment.holder)
        holder = segment.holder
        for key in sorted(seconds, key=_order):
            yield priced_line(holder, *key, gpu_seconds=seconds[key])


def _order(
    key: tuple[int, str, str, str, ChargeKind, Price],
) -> tuple[int, str, str, str, str, str]:
    return (*key[:5], key[5].id)


def _collect(
    segment: Held,
    prices: PriceList,
    start_s: int,
    end_s: int,
    seconds: dict[tuple[int, str, str, str, ChargeKind, Price], int],
    holder: str,
) -> Iterator[Finding]:
    kind = kind_of(segment.bucket, segment.tier)
    begin, end = max(segment.start_s, start_s), min(segment.end_s, end_s)
    if kind is None or begin >= end:
        return
    if segment.account is None:
        yield Finding(
            Trouble.NO_ATTRIBUTION,
            f"holder {holder}",
            "nobody is known to pay for it; give its job a project",
        )
        return
    changes = prices.changes(segment.flavour, kind, begin, end, segment.account)
    for first, until in cut(begin, end, changes):
        price = prices.at(segment.flavour, kind, first, segment.account)
        if price is None:
            yield no_rate(segment.flavour, kind, first)
            continue
        day_s = first - first % DAY_S
        key = (day_s, segment.account, segment.pool, segment.flavour, kind, price)
        seconds[key] = seconds.get(key, 0) + until - first


def no_rate(flavour: str, kind: ChargeKind, at_s: int) -> Finding:
    """Seconds without a price keep the period open; a price of 0 has to be set on purpose."""
    return Finding(
        Trouble.NO_RATE,
        f"{flavour}:{kind}",
        f"has no price on {datetime.fromtimestamp(at_s, UTC):%-d %b %Y} (UTC); propose one of this "
        "kind from then on that prices the past anew, 0 if it is to cost nothing",
    )


def priced_line(
    holder: str,
    day_s: int,
    account: str,
    pool: str,
    flavour: str,
    kind: ChargeKind,
    price: Price,
    *,
    gpu_seconds: int,
) -> UsageLine:
    """A line with its exact amount."""
    hours = gpu_hours(gpu_seconds)
    return UsageLine(
        holder=holder,
        day_s=day_s,
        account=account,
        pool=pool,
        flavour=flavour,
        kind=kind,
        rate_id=price.id,
        unit_price=price.per_gpu_hour,
        currency=price.currency,
        gpu_seconds=gpu_seconds,
        gpu_hours=hours,
        amount=times(hours, price.per_gpu_hour),
    )
