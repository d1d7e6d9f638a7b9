"""Starvation under shortest first, and the guard against it."""

from __future__ import annotations

from scheduler.engine.policy import Order, Policy
from scheduler.simulator.guard import BACKLOG_WEIGHT, PATIENCE, Guard
from scheduler.simulator.replay import replay
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
