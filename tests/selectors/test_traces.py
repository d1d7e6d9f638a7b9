"""Past jobs as a window for the simulator."""

from __future__ import annotations

import json
from datetime import timedelta

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from scheduler.models import Attempt, Job, JobEvent
from scheduler.selectors.traces import pools_with_gpus, window_of
from scheduler.services.nodes import create_pool
from scheduler.simulator.traces.reading import read_trace
from tests.scenes import (
    NOON,
    Cluster,
    add_node,
    at,
    build_cluster,
    ended,
    running,
    start,
    submit,
    sync,
)

pytestmark = pytest.mark.django_db


def test_a_window_has_what_ran_and_commands_compare_and_write_it(
    root, alice, project, capsys, settings, tmp_path
):
    cluster = build_cluster(root, nodes=2, gpus=2)
    for number in range(2):
        job = submit(alice, project, gpus_per_node=2, time_limit="1h", now=at(number))
        attempt = start(job, cluster.node(1), now=at(10 + 1000 * number))
        sync(cluster.node(1), running(attempt), now=at(10 + 1000 * number))
        sync(cluster.node(1), ended(attempt), now=at(910 + 1000 * number))
    submit(alice, project, now=at(5))
    window = window_of(cluster.pool, NOON - timedelta(hours=1), NOON + timedelta(hours=1))
    work = window.workload
    assert (window.nodes, work.gpus_per_node, window.teams) == (2, 2, ("vision",))
    assert work.submit_s.tolist() == [3600, 3601]
    assert work.run_s.tolist() == [900, 900]
    assert work.declared_s.tolist() == [3600, 3600]
    assert work.gpus.tolist() == [2, 2]
    assert Job.objects.count() == 3, "one has not ended and is not in it"

    assert (work.tier.tolist(), work.promised_s.tolist()) == ([10, 10], [0, 0])
    assert np.isinf(work.checkpoint_s).all(), "nobody reported any"
    written = tmp_path / "past.csv"
    call_command("write_trace", str(written), "--days", "3660")
    again = read_trace(written)
    assert (again.pool, again.team) == (("default",) * 2, ("vision",) * 2)
    assert again.duration_s.tolist() == [900, 900] and again.stated_s.tolist() == [3600, 3600]
    assert written.read_text().splitlines()[1].endswith(",10,0,0"), "waited, stops, failures"
    capsys.readouterr()
    result = tmp_path / "run.csv.gz"
    words = ["--days", "3660", "--change", "nodes=1", "--write", str(result)]
    call_command("what_if", "--pool", "default", *words)
    found = json.loads(capsys.readouterr().out)
    assert read_trace(result).duration_s.tolist() == [900, 900]
    assert (found["base"]["wait_p90_s"], found["changed"]["wait_p50_s"]) == (0, 449.5)
    with pytest.raises(CommandError, match="no pool"):
        call_command("what_if", "--pool", "none")
    with pytest.raises(CommandError, match="take more --days"):
        call_command("what_if", "--pool", "default", "--days", "0.000001")


@pytest.mark.once
def test_attempts_and_checkpoints_say_what_a_job_had_to_run(root, alice, project):
    """Stopped for another after 600 s of which 100 were lost, it then ran 300 s more; it took five
    checkpoints in these 900 s, and a job of another pool is in the same window.
    """
    cluster = build_cluster(root, nodes=1, gpus=2)
    other = Cluster(root, create_pool(actor=root, name="large"), [])
    for name in ("m1", "m2"):
        add_node(other, name, 4)
    job = submit(alice, project, gpus_per_node=1, time_limit="1h", now=at(0))
    asks = {"nodes": 2, "gpus_per_node": 2, "time_limit": "1h", "pool": "large"}
    wide = submit(alice, project, now=at(5), **asks)
    for number, (one, begin, end, reason, facts) in enumerate(
        [
            (job, 10, 610, "preempted", {"lost_s": 100}),
            (job, 1000, 1300, "completed", {}),
            (wide, 20, 90, "completed", {}),
        ]
    ):
        attempt = Attempt.objects.create(
            job=one, number=1 + number, state="ended", assigned_at=at(begin),
            started_at=at(begin), ended_at=at(end), end_reason=reason, end_facts=facts,
        )  # fmt: skip
        Job.objects.filter(pk=one.pk, started_at=None).update(started_at=at(begin))
        Job.objects.filter(pk=one.pk).update(state="succeeded", ended_at=at(end))
    Job.objects.filter(pk=job.pk).update(tier=20)
    for number in range(5):
        JobEvent.objects.create(job=job, attempt=attempt, at=at(100 * number), kind="checkpoint")
    window = window_of([cluster.pool, other.pool], at(0), at(5000))
    work, past = window.workload, window.past
    assert window.pools == ("default", "large")
    assert (window.nodes, work.gpus_per_node) == ((1, 2), (2, 4))
    assert (work.run_s.tolist(), work.pool.tolist()) == ([800, 70], [0, 1])
    assert work.checkpoint_s.tolist() == [150, np.inf]
    assert work.tier.tolist() == [20, 10]
    assert (work.gpus.tolist(), work.nodes.tolist(), window.parts) == ([1, 4], [1, 2], 0)
    Job.objects.filter(pk=job.pk).update(gpu_milli=250)
    assert window_of([cluster.pool, other.pool], at(0), at(5000)).parts == 1
    assert (past.waited_s.tolist(), past.stops.tolist()) == ([400, 15], [1, 0])
    assert [one.name for one in pools_with_gpus()] == ["default", "large"]
