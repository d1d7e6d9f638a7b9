"""The workload of `bench queue`: as many jobs as asked for, in order, and the same for a seed."""

from __future__ import annotations

import pytest

from portal.bench.load.mixes import CONFIGS, MODES, QUOTA, plan
from portal.bench.load.queue import BULK, _batches, _job

pytestmark = pytest.mark.once


def test_the_baseline_is_what_it_is_compared_with():
    config = CONFIGS["baseline"]
    orders = plan(config, 1.0, 0.0, 42)
    assert len(orders) == 15_000
    work = sum(order.kind.units * order.takes_s for order in orders)
    # No schedule of it is faster than this.
    assert work / (config.cohorts * config.queues * QUOTA) == pytest.approx(66)
    assert len(plan(CONFIGS["large"], 1.0, 0.0, 42)) == 50_000


def test_jitter_is_the_seeds_and_batches_keep_the_order():
    config = CONFIGS["baseline"]
    orders = plan(config, 0.02, 0.3, 7)
    assert orders == plan(config, 0.02, 0.3, 7) != plan(config, 0.02, 0.3, 8)
    batches = list(_batches(orders))
    assert [one for batch in batches for one in batch] == orders
    assert max(map(len, batches)) <= BULK
    assert max(batch[-1].at_s - batch[0].at_s for batch in batches) <= 0.1


def test_gangs_have_the_work_of_the_baseline_and_share_it_evenly():
    config, plain = CONFIGS["tas"], CONFIGS["baseline"]
    orders = plan(config, 0.1, 0.0, 42)
    assert [one.at_s for one in orders] == [one.at_s for one in plan(plain, 0.1, 0.0, 42)]
    assert config.cohorts * config.racks == 10 and config.rack_nodes == 64
    wished = set()
    for order in orders:
        job = _job(config, order)
        assert job["gpus_per_node"] <= config.node_cards
        assert job["nodes"] * job["gpus_per_node"] == order.kind.units * config.cards
        wished.add((job["nodes"], job["topology"]))
    assert wished == {(count, f"rack:{mode}") for count in (2, 4, 8) for mode in MODES}
