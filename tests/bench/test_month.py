"""The month `bench ledger` fills is a partition of about the size that was asked for."""

from __future__ import annotations

import pytest

from portal.bench.money.month import GPUS, month, nodes_for
from scheduler.ledger.auditing import audit
from scheduler.ledger.segments import ALLOCATED, Bucket, Segment


@pytest.mark.parametrize("asked", [3_000, 40_000])
def test_a_made_up_month_is_a_partition(asked):
    end_s = 31 * 86_400
    stays = [stay for gang in month(asked, 0, end_s, seed=1) for stay in gang]
    segments = [
        Segment(f"{device:06d}", stay.start_s, stay.end_s, Bucket(stay.bucket))
        for stay in stays
        for device in stay.devices
    ]
    segments.sort(key=lambda s: (s.device, s.start_s))
    found = audit(segments, 0, end_s)
    assert found.findings == []
    assert found.span == nodes_for(asked) * GPUS * end_s
    assert asked * 0.9 < len(segments) < asked * 1.1
    for stay in stays:
        assert (stay.attempt >= 0) == (Bucket(stay.bucket) in ALLOCATED)


def test_the_same_seed_gives_the_same_month():
    one, same, other = (list(month(3_000, 0, 10**6, seed=seed)) for seed in (1, 1, 2))
    assert one == same != other
