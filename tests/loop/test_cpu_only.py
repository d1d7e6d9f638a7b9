"""Jobs without GPUs: they run, hold their CPUs, cost nothing, and fit where no GPU is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.engine.checks import check_snapshot
from scheduler.loop.loading import load_snapshot
from scheduler.models import Allocation, Attempt
from scheduler.selectors.usage import job_cost
from scheduler.services.submitting.quotes import preview_job
from scheduler.spec import SpecInvalid, parse_spec
from tests import scenes
from tests.scenes import NOON, at, ended, running, submit, sync

pytestmark = pytest.mark.django_db


def cpu_job(alice, project, **fields):
    return submit(alice, project, gpus_per_node=0, cpus=12, memory="4GiB", **fields)


def test_it_runs_beside_full_gpus_and_holds_its_cpus_until_it_ends(
    cluster, scheduler, alice, project
):
    gpus = [submit(alice, project, gpus_per_node=2) for _ in range(2)]
    first, second, third = (cpu_job(alice, project) for _ in range(3))
    scheduler.run_cycle(at(0))
    for job in (*gpus, first, second, third):
        job.refresh_from_db()
    assert [j.state for j in (*gpus, first, second)] == ["starting"] * 4
    assert (third.state, third.wait_reason) == ("queued", "capacity_busy")
    assert "12 CPUs" in third.wait_facts["need"]
    attempt = first.attempts.get()
    assert not Allocation.objects.filter(placement__attempt=attempt).exists()
    loaded = load_snapshot(at(1)).snapshot
    check_snapshot(loaded)
    assert loaded.nodes.cpus_free.tolist() == [3, 3]
    node = attempt.placements.get().node
    sync(node, running(attempt))
    sync(node, ended(attempt), now=at(2))
    scheduler.run_cycle(at(2))
    first.refresh_from_db()
    third.refresh_from_db()
    assert (first.state, third.state) == ("succeeded", "starting")


def test_the_node_is_told_of_no_device_and_nothing_is_charged(cluster, scheduler, alice, project):
    job = cpu_job(alice, project)
    scheduler.run_cycle(at(0))
    attempt = Attempt.objects.get(job=job)
    node = attempt.placements.get().node
    (told,) = sync(node, running(attempt)).assignments
    assert (told.device_uuids, told.launch.processes_per_node, told.launch.cpus) == ((), 1, 12)
    sync(node, ended(attempt), now=at(3600))
    assert job_cost(alice, job, now=at(3600)).cost == 0


def test_a_head_that_waits_for_cpus_is_told_when_they_come_free(cluster, scheduler, alice, project):
    for _ in range(2):
        cpu_job(alice, project, time_limit="10m")
    scheduler.run_cycle(at(0))
    head = submit(alice, project, gpus_per_node=2, cpus=8)
    scheduler.run_cycle(at(1))
    head.refresh_from_db()
    assert head.state == "queued"
    # The first two count from their commit, a moment later; what is told is rounded up to minutes.
    told = head.wait_facts["start_p90_at"] - int((NOON + timedelta(minutes=10)).timestamp())
    assert told in (0, 60)


def test_pools_without_gpus_take_it_and_refuse_others(root, alice, project):
    scenes.build_cluster(root, nodes=2, gpus=0)
    document = {"name": "x", "project": project.path, "script": "true"}
    quote = preview_job(actor=alice, spec=parse_spec({**document, "gpus_per_node": 0, "nodes": 2}))
    assert (quote.gpus, quote.total_gpus, quote.worst_case_cost) == (0, 0, 0)
    with pytest.raises(SpecInvalid) as refused:
        preview_job(actor=alice, spec=parse_spec(document))
    assert refused.value.problems[0].field == "gpus_per_node"
    with pytest.raises(SpecInvalid) as refused:
        preview_job(actor=alice, spec=parse_spec({**document, "gpus_per_node": 0, "nodes": 3}))
    assert "has 2 nodes; ask for fewer" in refused.value.problems[0].message
