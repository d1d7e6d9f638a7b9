"""What benchmarks call a percentile."""

from __future__ import annotations

import pytest

from portal.bench.figures import percentile


@pytest.mark.parametrize(
    ("count", "share", "found"),
    [(100, 0.95, 95), (100, 0.5, 50), (40, 0.95, 38), (8, 0.95, 8), (2, 0.5, 1), (1, 0.05, 1)],
)
def test_a_percentile_is_of_the_nearest_rank(count, share, found):
    """The least of the values that so many of them do not exceed."""
    values = list(range(count, 0, -1))
    assert percentile(values, share) == found
    assert sum(value <= found for value in values) >= share * count
