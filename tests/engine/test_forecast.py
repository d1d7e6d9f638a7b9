"""When waiting jobs will probably start."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.forecasting import FORECAST_REASONS, LIMIT_REASONS, starts
from scheduler.engine.forecasting.line import NOTHING_KEPT, Kept, Line
from scheduler.engine.forecasting.starts import LAID_OUT
from scheduler.engine.snapshot import NONE, Headroom, Snapshot, floats, ints
from tests.builders import NOW_S, draw, job
from tests.engine.shaping import shaped
from tests.engine.test_maintenance import closed
from tests.engine.test_properties import snapshots


def told(snapshot: Snapshot) -> dict[int, list[float]]:
    """Minutes from now by job: p50 and p90."""
    waits = plan_cycle(snapshot).waits
    p50_s, p90_s = waits.forecast.columns
    minutes = np.stack([p50_s, p90_s], axis=1) - NOW_S
    return dict(zip(waits.job.tolist(), (minutes / 60).tolist(), strict=True))


def test_jobs_follow_each_other_on_the_devices_they_can_have() -> None:
    jobs = [job(5, "1x2", waited=9, limit_s=600), job(6, "1x2", waited=8), job(7, "1x2", waited=7)]
    found = told(draw("a 12", jobs=jobs, ends={1: 300, 2: 600}))
    assert [found[number][1] for number in (5, 6, 7)] == [10, 20, 80]


def test_a_small_job_may_use_the_hole_before_a_gang() -> None:
    jobs = [
        job(5, "2x2", waited=9),
        job(6, "1x1", waited=8, limit_s=600),
        job(7, "1x2", waited=7, limit_s=9000),
    ]
    found = told(draw("a 11", "b 22", jobs=jobs, ends={1: 300, 2: 1200}))
    assert found[5][1] == 20
    assert found[6][1] == 5
    assert found[7][1] == 80


@pytest.mark.parametrize("most", [4, 8])
def test_an_elastic_job_is_told_when_it_can_begin_with_its_least(most: int) -> None:
    """Three nodes in an hour, one in twenty: behind the first as for the first itself."""
    jobs = [job(8, "1x1", waited=9, limit_s=60), job(9, f"{most}x2")]
    nodes = "a 11", "b 22", "c 33", "d 44"
    ends = dict.fromkeys((1, 2, 3), 3600) | {4: 72_000}
    snapshot = shaped(draw(*nodes, jobs=jobs, ends=ends), jobs={"nodes_min": {9: 2}})
    assert told(snapshot)[9][1] <= 65


def test_what_is_kept_of_nodes_is_waited_for() -> None:
    """Busy for 7 hours, in maintenance from the 8th to the 20th: nothing of 4 hours fits before."""
    jobs = [job(n, "1x2", waited=9 - n, limit_s=4 * 3600) for n in (5, 6, 7)]
    jobs.append(job(8, "1x1", limit_s=1800))
    window = (9, "0", 8 * 3600.0, 20 * 3600.0)
    snapshot = closed(draw("a 11", jobs=jobs, ends={1: 7 * 3600}), window)
    found = told(snapshot)
    assert [found[number][1] / 60 for number in (5, 6, 7, 8)] == [20, 24, 28, 7]
    # A gang waits until all its nodes are free of it at once.
    gangs = [job(5, "1x2", waited=9, limit_s=3600), job(6, "2x2", limit_s=4 * 3600)]
    pair = draw("a 11", "b 22", jobs=gangs, ends={1: 7 * 3600, 2: 3600})
    assert told(closed(pair, window))[6][1] / 60 == 20
    at_night = (9, "1", 10 * 3600.0, 11 * 3600.0)
    assert told(closed(pair, at_night))[6][1] / 60 == 11


def test_what_is_kept_for_others_is_not_told_to_anybody() -> None:
    jobs = [job(n, "1x2", waited=9 - n) for n in (5, 6)]
    snapshot = draw("a .1", "b 22", jobs=jobs, ends={1: 300, 2: 600})
    headroom = Headroom(*(ints([value]) for value in (3, 0, NONE, 1)))
    found = told(replace(snapshot, headroom=headroom))
    assert [found[number][1] for number in (5, 6)] == [10, 70]


def test_p50_takes_what_jobs_usually_run_and_what_is_learnt_of_one() -> None:
    jobs = [job(5, "1x2", waited=9), job(6, "1x2", waited=8)]
    snapshot = draw("a 11", jobs=jobs, ends={1: 1200})
    assert told(snapshot) == {5: [20, 20], 6: [80, 80]}
    half = replace(snapshot, run_share=floats([0.5]))
    assert told(half) == {5: [10, 20], 6: [40, 80]}
    learnt = replace(half.waiting, learnt_s=floats([120, np.inf]))
    assert told(replace(half, waiting=learnt)) == {5: [10, 20], 6: [12, 80]}


def test_who_waits_for_something_else_than_room_has_no_forecast() -> None:
    jobs = [job(5, "1x9"), job(6, "1x2", queue="night"), job(7, "1x2")]
    waits = plan_cycle(draw("a 12", jobs=jobs, paused=["night"])).waits
    facts = {wait.job: wait.facts for wait in waits}
    assert facts[5]["start_why"] == "It can never start as it is."
    assert facts[6]["start_why"] == "Nobody knows when the queue is resumed."
    assert "start_why" not in facts[7]


def test_many_jobs_are_told_by_the_work_ahead_of_them() -> None:
    count = LAID_OUT + 100
    jobs = [job(n, "1x1", waited=count - n, limit_s=3600) for n in range(1, count + 1)]
    found = told(draw("a " + "z" * 4, jobs=jobs, ends={35: 3600}))
    # Four devices, an hour each: job n starts after n // 4 hours.
    assert found[LAID_OUT][1] == 60 * (1 + (LAID_OUT - 1) // 4)
    assert abs(found[count][1] - 60 * (1 + (count - 1) // 4)) <= 60


def test_a_line_never_hands_out_a_device_twice_at_a_time() -> None:
    line = Line(floats([0, 0, 5]).reshape(1, 3))
    now = floats([0])
    assert line.take(1, 3, 10, now) == 5
    assert line.take(1, 2, 5, now) == 0, "two devices idle until then"
    assert line.take(1, 1, 1, now) == 15
    assert line.take(1, 4, 1, now) == float("inf")


class ByArrays(Line):
    """All nodes of a job at once, sorted anew."""

    def _take(self, chosen, gpus, start_s, end_s) -> None:
        rows, at = self.free_s[chosen], np.arange(self.free_s.shape[1])
        last = (rows <= start_s).sum(axis=1)
        taken = (at >= (last - gpus)[:, None]) & (at < last[:, None])
        for node, row, its in zip(chosen.tolist(), rows, taken, strict=True):
            for since_s, count in zip(*np.unique(row[its], return_counts=True), strict=True):
                self._add_hole(node, int(count), float(since_s), start_s)
        self.free_s[chosen] = np.sort(np.where(taken, end_s, rows), axis=1)


@given(st.data())
def test_a_line_taken_row_by_row_is_as_if_it_were_sorted_anew(data) -> None:
    moment = st.sampled_from([0.0, 1.0, 2.5, 4.0, np.inf])
    nodes, devices = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    free_s = data.draw(st.lists(moment, min_size=nodes * devices, max_size=nodes * devices))
    table = floats(free_s).reshape(nodes, devices)
    line, other = Line(table), ByArrays(table)
    kept = Kept(floats([2.0] * nodes).reshape(1, -1), floats([3.0] * nodes).reshape(1, -1))
    for _ in range(data.draw(st.integers(1, 12))):
        size, gpus = data.draw(st.integers(1, nodes)), data.draw(st.integers(1, devices))
        run_s, from_s = data.draw(st.sampled_from([0.5, 1.0, 3.0])), floats([0.0] * nodes)
        where = from_s, kept if data.draw(st.booleans()) else NOTHING_KEPT, run_s
        assert line.take(size, gpus, run_s, *where) == other.take(size, gpus, run_s, *where)
        np.testing.assert_array_equal(line.free_s, other.free_s)
    assert line.left() == other.left()


@given(snapshots())
def test_every_job_that_waits_for_room_is_told_or_its_pool_has_no_end_in_sight(
    snapshot: Snapshot,
) -> None:
    waits = plan_cycle(snapshot).waits
    p50_s, p90_s = waits.forecast.columns
    for row, wait in enumerate(waits):
        assert (wait.facts["start_p90_at"] is None) == bool(np.isnan(p90_s[row]))
        if wait.reason in FORECAST_REASONS:
            assert snapshot.now_s <= p50_s[row] <= p90_s[row]
        elif wait.reason not in LIMIT_REASONS:
            assert np.isnan(p50_s[row])
            assert wait.facts["start_why"] != "What it waits for has no end in sight."


@pytest.mark.parametrize("laid_out", [LAID_OUT, 1])
@settings(max_examples=40)
@given(snapshots())
def test_one_asked_alone_is_told_the_same(laid_out: int, snapshot: Snapshot) -> None:
    """Those after it are not laid out then, nor other pools."""
    learnt_s = np.where(snapshot.waiting.id % 3 == 0, 120.0, np.inf)
    snapshot = replace(snapshot, waiting=replace(snapshot.waiting, learnt_s=floats(learnt_s)))
    with patch.object(starts, "LAID_OUT", laid_out):
        alone = plan_cycle(snapshot).waits
        found = [alone.forecast.of(row) for row in range(len(alone))]
        columns = plan_cycle(snapshot).waits.forecast.columns
    np.testing.assert_array_equal(np.array(found).reshape(-1, 2).T, np.stack(columns))
