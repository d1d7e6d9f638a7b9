"""Waits counted by length, in buckets that each are a quarter longer than the one before. Pure.

Counts of hours add up where medians do not; a quantile of the sum is right to about a tenth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

# Buckets a doubling; bucket 0 is anything below a second.
PER_DOUBLING = 4


def bucket_of(wait_s: float) -> int:
    """The number of the bucket of a wait; a longer one never has a lower number."""
    return 0 if wait_s < 1 else 1 + math.floor(math.log2(wait_s) * PER_DOUBLING + 1e-9)


def seconds_of(bucket: int) -> float:
    """The middle of a bucket, by ratio."""
    return 0.0 if bucket <= 0 else 2 ** ((bucket - 0.5) / PER_DOUBLING)


def counted(waits_s: Iterable[float]) -> dict[str, int]:
    """How many waits fall into each bucket, as a row keeps it."""
    return {
        str(bucket): count for bucket, count in sorted(Counter(map(bucket_of, waits_s)).items())
    }


def quantile(rows: Iterable[Mapping[str, int]], share: float) -> float | None:
    """The wait in seconds that this share of all waits does not exceed; None of none."""
    total: Counter[int] = Counter()
    for row in rows:
        for bucket, count in row.items():
            total[int(bucket)] += count
    left = math.ceil(share * total.total())
    for number in sorted(total):
        left -= total[number]
        if left <= 0:
            return seconds_of(number)
    return None
