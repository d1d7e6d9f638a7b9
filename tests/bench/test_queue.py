"""The workload of `bench queue`: as many jobs as asked for, in order, and the same for a seed."""

from __future__ import annotations

import pytest

from portal.bench.load.queue import BULK, CONFIGS, QUOTA, _batches, plan

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
