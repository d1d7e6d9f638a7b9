"""The month `bench ledger` fills is a partition of about the size that was asked for."""

from __future__ import annotations

import pytest

from portal.bench.money.filling import fill
from portal.bench.money.month import GPUS, month, nodes_for
from portal.bench.money.steps import close, last_month
from portal.management.seeding import seed_demo
from scheduler.ledger.auditing import audit
from scheduler.ledger.segments import ALLOCATED, Bucket, Segment
from scheduler.services.books import verify_ledger
from tests import factories


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


@pytest.mark.django_db
def test_a_small_month_beside_the_demonstration_is_filled_and_closed():
    """With the demonstration two people keep the books: no price holds by one alone."""
    admin = factories.person("admin", is_superuser=True)
    seed_demo(admin)
    last = last_month()
    assert fill(admin, last, 2_000, seed=1)["segments"] > 1_800
    closed = close(admin, last, 2_000, seed=1)
    assert closed["statements"] == 5 and closed["lines"] > closed["entries"] > 40
    assert verify_ledger().breaks == ()
