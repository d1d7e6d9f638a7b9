"""Past jobs as a window for the simulator."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from scheduler.models import Job
from scheduler.selectors.traces import window_of
from tests.scenes import NOON, at, build_cluster, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


def test_a_window_has_what_ran_and_the_command_compares_it(root, alice, project, capsys, settings):
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

    call_command("what_if", "--pool", "default", "--days", "3660", "--change", "nodes=1")
    found = json.loads(capsys.readouterr().out)
    assert (found["base"]["wait_p90_s"], found["changed"]["wait_p50_s"]) == (0, 449.5)
    with pytest.raises(CommandError, match="no pool"):
        call_command("what_if", "--pool", "none")
    with pytest.raises(CommandError, match="take more --days"):
        call_command("what_if", "--pool", "default", "--days", "0.000001")
