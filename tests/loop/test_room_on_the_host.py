"""What victims hold of a node beside GPUs is theirs until they have left."""

from __future__ import annotations

import pytest

from scheduler.engine.policy import Order, Policy
from scheduler.loop.cycle import Scheduler
from scheduler.models import Attempt, Node
from scheduler.states import JobState
from tests.scenes import at, running, submit, sync

pytestmark = pytest.mark.django_db

SHORTEST = Policy(order=Order.SHORTEST, preempts=True, min_run_s=60, rest_s=600)


def test_cpus_and_memory_of_a_victim_are_given_to_nobody_while_it_stops(cluster, alice, project):
    scheduler = Scheduler(holder="test", policy=SHORTEST)
    long = {"gpus_per_node": 2, "cpus": 14, "memory": "50GiB", "time_limit": "40h"}
    for number in (1, 2):
        submit(alice, project, name=f"long-{number}", **long)
    scheduler.run_cycle(at(1))
    for attempt in Attempt.objects.all():
        sync(attempt.placements.get().node, running(attempt), now=at(3))
    Attempt.objects.update(started_at=at(3), checkpoint_at=at(4_999))
    short = submit(alice, project, gpus_per_node=2, time_limit="5m", cpus=2, now=at(90))
    beside = submit(
        alice, project, gpus_per_node=0, cpus=10, memory="30GiB", time_limit="5m", now=at(91)
    )
    Node.objects.update(last_seen_at=at(5_000))
    outcome = scheduler.run_cycle(at(5_000))
    assert (outcome.stopped, outcome.started) == (1, 0)
    for job in (short, beside):
        job.refresh_from_db()
        assert job.state == JobState.QUEUED
    small = submit(alice, project, gpus_per_node=0, cpus=2, memory="1GiB", now=at(5_001))
    Node.objects.update(last_seen_at=at(5_002))
    assert scheduler.run_cycle(at(5_002)).started == 1
    small.refresh_from_db()
    assert small.state == JobState.STARTING
