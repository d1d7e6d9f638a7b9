"""What is kept of a start, and what is learnt from ends."""

import pytest

from scheduler.loop.loading import load_snapshot
from scheduler.loop.run_shares import LEARN_LEAST, RunShareMemory
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


def test_a_start_keeps_where_the_job_stood(scheduler, alice, project):
    wide = submit(alice, project, gpus_per_node=2, nodes=2)
    submit(alice, project, now=at(1))
    scheduler.run_cycle(at(2))
    stood = wide.attempts.get().standing
    assert (stood["place"], stood["passed"], stood["gpus"]) == (1, 0, 4)
    assert stood["queued_at_s"] == at(0).timestamp()


def test_forecasts_learn_how_much_of_their_limits_jobs_run(cluster, alice, project):
    memory, snapshot = RunShareMemory(), load_snapshot(at(0)).snapshot
    assert memory.add_to(snapshot, now=at(0)).run_share is None
    for _ in range(LEARN_LEAST):
        job = submit(alice, project, time_limit="1h")
        started = start(job, cluster.node(1), now=at(10))
        node = started.placements.get().node
        sync(node, running(started), now=at(10))
        sync(node, ended(started), now=at(910))
    assert memory.add_to(snapshot, now=at(20)).run_share is None, "counted every five minutes"
    assert memory.add_to(snapshot, now=at(1000)).run_share == [0.25]
