"""Seconds that nobody held: counted by day, split by a pool's policy, priced like any others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.ledger.findings import Finding
from scheduler.ledger.rating import (
    DAY_S,
    ChargeKind,
    Held,
    PriceList,
    UsageLine,
    cut,
    no_rate,
    priced_line,
)
from scheduler.ledger.segments import ALLOCATED, UNALLOCATED, Bucket, Segment
from scheduler.ledger.shares import IdlePolicy, Weights, share_out


@dataclass(frozen=True, slots=True)
class Spare:
    """Seconds of one UTC day, pool and flavour that nobody is charged for directly.

    No attempt held them, or one did at the platform's cost: silent nodes, what it broke itself.
    """

    day_s: int
    pool: str
    flavour: str
    bucket: Bucket
    gpu_seconds: int


@dataclass(frozen=True, slots=True)
class SharePolicy:
    """How a pool splits its idle time, and the platform's: out of use, silent, broken by it."""

    idle: IdlePolicy = IdlePolicy.NONE
    platform: IdlePolicy = IdlePolicy.NONE
    guarantee_percent: int = 50
    guaranteed: Mapping[str, int] = field(default_factory=dict)


def share_lines(
    spare: Iterable[Spare],
    policies: Mapping[str, SharePolicy],
    run_seconds: Mapping[str, Mapping[str, int]],
    prices: PriceList,
) -> Iterator[UsageLine | Finding]:
    """Lines of what is shared: seconds are split first, then priced like any others.

    A pool's weights are those of the whole window, so that an idle day is paid for by those who
    used the pool on other days. A missing price is a finding.
    """
    for part in sorted(spare, key=lambda s: (s.day_s, s.pool, s.flavour, s.bucket)):
        policy = policies.get(part.pool, SharePolicy())
        if part.bucket in UNALLOCATED or part.bucket in ALLOCATED:
            kind, chosen = ChargeKind.PLATFORM_SHARE, policy.platform
        elif part.bucket is Bucket.FREE:
            kind, chosen = ChargeKind.IDLE_SHARE, policy.idle
        else:
            continue
        weights = Weights(run_seconds.get(part.pool, {}), policy.guaranteed)
        shares, remarks = share_out(
            part.gpu_seconds,
            chosen,
            weights,
            subject=f"pool {part.pool}",
            guarantee_percent=policy.guarantee_percent,
        )
        yield from remarks
        for account in sorted(shares):
            price = prices.at(part.flavour, kind, part.day_s, account)
            if price is None:
                yield no_rate(part.flavour, kind, part.day_s)
                continue
            yield priced_line(
                f"share:{part.bucket}",
                part.day_s,
                account,
                part.pool,
                part.flavour,
                kind,
                price,
                gpu_seconds=shares[account],
            )


def share_notes(
    spare: Iterable[Spare],
    policies: Mapping[str, SharePolicy],
    run_seconds: Mapping[str, Mapping[str, int]],
) -> list[dict[str, Any]]:
    """How each pool with a policy was split, for whoever asks later: policies, seconds, weights."""
    seconds: dict[str, dict[str, int]] = {}
    for part in spare:
        own = seconds.setdefault(part.pool, {})
        own[part.bucket] = own.get(part.bucket, 0) + part.gpu_seconds
    return [
        {
            "pool": pool,
            "idle": str(policy.idle),
            "platform": str(policy.platform),
            "guarantee_percent": policy.guarantee_percent,
            "seconds": {str(b): count for b, count in sorted(seconds.get(pool, {}).items())},
            "used": dict(sorted(run_seconds.get(pool, {}).items())),
            "guaranteed": dict(sorted(policy.guaranteed.items())),
        }
        for pool, policy in sorted(policies.items())
        if policy.idle is not IdlePolicy.NONE or policy.platform is not IdlePolicy.NONE
    ]


class Spares:
    """Counts seconds of a window that nobody held, by UTC day, pool, flavour and bucket."""

    def __init__(self, start_s: int, end_s: int) -> None:
        self._start_s, self._end_s = start_s, end_s
        self._seconds: dict[tuple[int, str, str, Bucket], int] = {}

    def add(self, segment: Segment, pool: str, flavour: str) -> None:
        """Count a segment, if nobody held it."""
        if segment.bucket is not Bucket.FREE and segment.bucket not in UNALLOCATED:
            return
        end_s = self._end_s if segment.end_s is None else segment.end_s
        self._count(segment.start_s, end_s, pool, flavour, segment.bucket)

    def bear(self, held: Held) -> None:
        """Count what an attempt held at the platform's cost."""
        self._count(held.start_s, held.end_s, held.pool, held.flavour, held.bucket)

    def _count(self, start_s: int, end_s: int, pool: str, flavour: str, bucket: Bucket) -> None:
        for first, until in cut(max(start_s, self._start_s), min(end_s, self._end_s), ()):
            key = (first - first % DAY_S, pool, flavour, bucket)
            self._seconds[key] = self._seconds.get(key, 0) + until - first

    def found(self) -> list[Spare]:
        """What was counted, in a fixed order."""
        return [Spare(*key, gpu_seconds=count) for key, count in sorted(self._seconds.items())]
