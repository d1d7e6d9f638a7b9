"""What is learnt about run times that nobody declares."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.learning.hazards import EDGES, WIDTHS, index_of
from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import floats, ints
from scheduler.simulator.hazards import Hazards, next_bin_s
from scheduler.simulator.replay import replay
from tests.simulator.test_replay import ends, workload

LAS = Policy(order=Order.LAS, head_patience_s=0, backfill_slack_s=0, preempts=True)


def forecast(hazards: Hazards, row: int, attained_s: float = 0.0) -> float:
    return float(hazards.forecast_s(ints([row]), floats([attained_s]))[0])


def test_ends_at_a_constant_rate_make_an_index_of_that_rate():
    """One end in 1000 GPU seconds whatever was attained: running on buys 1/1000, however long."""
    rates = index_of(floats([0, 700, 5000]), np.tile(WIDTHS / 1000.0, (3, 1)))
    assert rates.tolist() == pytest.approx([0.001] * 3)


def test_the_best_bound_to_stop_at_counts_not_the_first():
    """Nothing ends in the first bin, nearly all in the second: the index looks that far."""
    hazard = np.full((1, len(WIDTHS)), 1e-6)
    hazard[0, 1] = 50.0
    chance, takes = 1.0, 600.0 + 600.0 / 50.0
    assert index_of(floats([0]), hazard)[0] == pytest.approx(chance / takes, rel=1e-4)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=6))
def test_before_anything_is_known_more_service_means_more_ahead(attained):
    hazards = Hazards(ints([2]))
    hazards.arrive(0)
    found = [forecast(hazards, 0, seconds) for seconds in sorted(attained)]
    # Within a bin of constant rate the bound comes closer, so it may fall a little there.
    assert all(later >= 0.5 * sooner for sooner, later in pairwise(found))
    assert all(seconds > 0 for seconds in found)


def test_a_pool_of_short_jobs_is_expected_short():
    def pool(ran_s: float) -> Hazards:
        hazards = Hazards(ints([1] * 60))
        for row in range(60):
            hazards.arrive(row)
        for row in range(50):
            hazards.end(row, ran_s)
        return hazards

    assert forecast(pool(100), 59) < forecast(pool(100_000), 59) / 10


def test_neighbours_in_the_order_of_submit_tell_more_than_the_rest():
    hazards = Hazards(ints([4] * 40))
    for row in range(40):
        hazards.arrive(row)
    for row in range(15):
        hazards.end(row, 50.0)
    for row in range(25, 40):
        hazards.end(row, 500_000.0)
    rows, none = ints(range(15, 25)), floats([0.0] * 10)
    found = hazards.forecast_s(rows, none)
    assert found[0] < found[-1] / 5


def test_survivors_count_as_exposure():
    """Nine others have run for long without an end: the tenth is expected longer."""
    hazards = Hazards(ints([1] * 10))
    for row in range(10):
        hazards.arrive(row)
    before = hazards.forecast_s(ints(range(10)), floats([0.0] * 10))
    hazards.arrive(9)
    after = hazards.forecast_s(ints(range(10)), floats([1e6] * 9 + [0.0]))
    assert after[9] > before[9]


def test_the_next_bin_is_reached_by_gpu_time():
    assert next_bin_s(floats([0, 300, 600]), ints([2, 2, 1])).tolist() == [300, 300, 600]
    assert EDGES[:4].tolist() == [0, 600, 1200, 2400]


def test_nobody_peeks_at_what_was_declared():
    jobs = [(0, 5000, 4), (100, 50, 2), (150, 900, 4), (160, 30, 1)]
    told = replay(workload(jobs), 1, LAS)
    hidden = replay(workload(jobs, declared=[np.inf] * 4), 1, LAS)
    assert ends(told) == ends(hidden)


def test_a_fresh_job_need_not_wait_for_one_that_has_run_for_hours():
    """The long one has passed many bins when the short one comes, and stops for it at once."""
    outcome = replay(workload([(0, 40_000, 4), (30_000, 10, 4)], declared=[np.inf] * 2), 1, LAS)
    assert ends(outcome) == [40_000 + 10 + 30, 30_010]
