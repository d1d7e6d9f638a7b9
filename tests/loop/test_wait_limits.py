"""How long jobs may wait under orders that starve, learnt from the past of their pool."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.engine.policy import Order, Policy
from scheduler.loop.learning import LEARN_EVERY, LEAST_WAIT_S
from scheduler.loop.loading import load_snapshot
from scheduler.loop.memories import Memories
from scheduler.models import Attempt, Job, Pool
from scheduler.services.sharing.policies import set_pool_policy
from scheduler.services.simulating.waiting import LOOK_BACK, learn_wait_limits
from scheduler.simulator.guard import BACKLOG_WEIGHT, PATIENCE
from scheduler.states import EndReason, JobState
from tests.scenes import NOON, at, submit

pytestmark = pytest.mark.django_db
HOUR = 3_600


def past(alice, project, begin_s: int, end_s: int) -> None:
    """A job on all four GPUs that came at noon."""
    job = submit(alice, project, nodes=2, gpus_per_node=2, time_limit="20h", now=at(0))
    Job.objects.filter(pk=job.pk).update(
        state=JobState.SUCCEEDED, started_at=at(begin_s), ended_at=at(end_s)
    )
    Attempt.objects.create(
        job=job,
        number=1,
        state="ended",
        end_reason=EndReason.COMPLETED,
        assigned_at=at(begin_s),
        started_at=at(begin_s),
        ended_at=at(end_s),
    )


@pytest.fixture
def shortest(root, cluster) -> Pool:
    set_pool_policy(actor=root, pool=cluster.pool, name="shortest", now=NOON)
    return cluster.pool


def limit_of(memories: Memories, seconds: float) -> float:
    policy = Policy(order=Order.SHORTEST)
    seen = memories.add_to(load_snapshot(at(seconds)).snapshot, policy, now=at(seconds))
    assert seen.wait_limit_s is not None
    return float(seen.wait_limit_s[0])


def test_the_past_says_how_long_jobs_may_wait_and_cycles_go_by_it(
    client, cluster, shortest, alice, project
):
    """Three of ten hours each: 30 hours ahead at noon, by the limits 60."""
    for place in range(3):
        past(alice, project, place * 10 * HOUR, (place + 1) * 10 * HOUR)
    later = 40 * HOUR
    memories = Memories()
    assert limit_of(memories, later) == LEAST_WAIT_S, "nobody has looked at the past yet"
    assert learn_wait_limits(now=at(later)) == 1
    may_wait_s = Pool.objects.get(pk=shortest.pk).may_wait_s
    assert may_wait_s == pytest.approx(PATIENCE * BACKLOG_WEIGHT * 60 * HOUR)
    assert limit_of(memories, later) == LEAST_WAIT_S, "read anew in intervals only"
    assert limit_of(memories, later + LEARN_EVERY.total_seconds()) == may_wait_s
    assert limit_of(Memories(), later) == may_wait_s, "so pages say what the loop does"
    client.force_login(alice)
    assert "of waiting, as learnt" in client.get("/cluster/pools/default/").content.decode()


def test_who_waits_still_counts_and_the_past_is_forgotten(root, cluster, shortest, alice, project):
    past(alice, project, 0, HOUR)
    submit(alice, project, nodes=2, gpus_per_node=2, time_limit="20h", now=at(0))
    gone = submit(alice, project, nodes=2, gpus_per_node=2, time_limit="20h", now=at(0))
    Job.objects.filter(pk=gone.pk).update(state=JobState.CANCELLED, ended_at=at(5))
    learn_wait_limits(now=at(2 * HOUR))
    assert Pool.objects.get().may_wait_s == pytest.approx(PATIENCE * BACKLOG_WEIGHT * 40 * HOUR)
    learn_wait_limits(now=NOON + LOOK_BACK + timedelta(days=1))
    assert Pool.objects.get().may_wait_s == 0


def test_pools_whose_order_starves_nobody_need_no_limit(root, cluster, shortest, alice, project):
    past(alice, project, 0, HOUR)
    learn_wait_limits(now=at(2 * HOUR))
    assert Pool.objects.get().may_wait_s is not None
    set_pool_policy(actor=root, pool=shortest, name="fifo", now=at(5))
    assert learn_wait_limits(now=at(2 * HOUR)) == 0
    assert Pool.objects.get().may_wait_s is None
