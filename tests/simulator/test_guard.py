"""Starvation under shortest first, and the guard against it."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.engine.policy import Order, Policy
from scheduler.simulator.guard import (
    BACKLOG_WEIGHT,
    PATIENCE,
    SHADOW_POLICY,
    Guard,
    limit_of_past,
)
from scheduler.simulator.replay import replay
from scheduler.simulator.whatif import Setting, impact_of
from tests.simulator.test_replay import SHORTEST, workload

# One wide long job, and an endless stream of short ones that always leave no room for it.
STREAM = [(0, 10, 2), (0, 10, 2), (1, 500, 4)] + [(5 * n, 10, 2) for n in range(1, 400)]


def test_a_stream_of_short_jobs_cannot_starve_a_wide_one():
    work = workload(STREAM)
    wide = STREAM.index((1, 500, 4))
    free = replay(work, 1, Policy(order=Order.SHORTEST, head_patience_s=float("inf")))
    guarded = replay(work, 1, SHORTEST, limit=Guard(work, 1))
    assert free.waited_s[wide] > 1900
    assert guarded.waited_s[wide] < free.waited_s[wide]
    settings = [Setting(1, policy) for policy in (SHADOW_POLICY, SHORTEST)]
    asked = impact_of(work, settings).runs[1].outcome
    assert asked.waited_s.tolist() == guarded.waited_s.tolist()


def test_the_limit_follows_the_backlog_and_the_shadows_longest_wait():
    """At 0 a job of 100 s on all GPUs starts and one of 60 s waits: 160 s of work ahead. At 100 the
    shadow's second job starts, having waited 100 s; at 200 the backlog is gone but not forgotten.
    """
    work = workload([(0, 100, 4), (0, 60, 4)])
    limits = []

    def note(world, ended):
        limits.append(guard(world, ended))
        return limits[-1]

    guard = Guard(work, 1)
    replay(work, 1, Policy(head_patience_s=0, backfill_slack_s=0), limit=note)
    assert limits[0] == PATIENCE * BACKLOG_WEIGHT * 160
    assert limits[-1] == limits[0]


def test_the_shadow_learns_that_a_job_took_less_than_declared():
    """Declared 1000 s, over after 10: in the shadow too, so the next waits 10 s and not 1000."""
    work = workload([(0, 10, 4), (1, 5, 4), (20, 5, 4)], declared=[1000, 5, 5])
    guard = Guard(work, 1)
    replay(work, 1, Policy(head_patience_s=0, backfill_slack_s=0), limit=guard)
    shadow = guard._shadow.world
    assert shadow.waited_s.tolist() == [0, 9, 0]


@pytest.mark.parametrize("seed", range(5))
def test_the_past_alone_tells_what_the_guard_would_have_said(seed):
    """Where a pool was scheduled as its shadow is and all declared the truth, both are one."""
    drawn = np.random.default_rng(seed)
    jobs = zip(
        np.sort(drawn.integers(0, 3_000, 60)),
        drawn.integers(1, 600, 60),
        drawn.choice([1, 2, 4, 8], 60),
        strict=True,
    )
    work = workload([(int(came), int(ran), int(gpus)) for came, ran, gpus in jobs])
    limits = {}

    def note(world, ended):
        limits[world.now_s] = guard(world, ended)
        return np.inf

    guard = Guard(work, 2)
    replay(work, 2, SHADOW_POLICY, limit=note)
    moments = sorted(limits)
    for at_s in (moments[len(moments) // 2], moments[-1]):
        assert limit_of_past(work, 2, at_s) == limits[at_s]
    assert limits[moments[-1]] > limits[moments[0]]


def test_who_waits_still_counts_in_the_shadow_as_well():
    """Forty jobs that fill three of four GPUs, one after the other: 300 s of work ahead over all
    GPUs, and yet the last has waited 389 s by then."""
    work = workload([(0, 10, 3)] * 40)
    assert limit_of_past(work, 1, 200) == pytest.approx(PATIENCE * BACKLOG_WEIGHT * 300)
    assert limit_of_past(work, 1, 389) == pytest.approx(PATIENCE * 389)
