"""What blocks a job, what would help, who went before it, and how the scheduler does."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduler.loop.cycle import Scheduler
from scheduler.models import SchedulerLease, StartForecast
from tests import scenes
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def scheduler(cluster):
    SchedulerLease.objects.update(expires_at=scenes.NOON)
    return Scheduler(holder="test")


@pytest.fixture
def queue(scheduler, alice, project):
    """A job in the way, a wide one behind it, and a small one that starts before that."""
    full = scenes.submit(alice, project, time_limit="2h")
    wide = scenes.submit(alice, project, nodes=2, gpus_per_node=2, now=scenes.at(1))
    small = scenes.submit(alice, project, now=scenes.at(2))
    scheduler.run_cycle(scenes.at(3))
    return full, wide, small


def test_options_name_checks_holders_and_what_would_start_now(program, alice, queue):
    full, wide, small = queue
    found = program(alice).get(f"/jobs/{wide.pk}/options/").json()
    answer = found["answer"]
    failing = [check["reason"] for check in answer["checks"] if not check["is_ok"]]
    assert failing == ["capacity_busy", "topology_fragmented"]
    assert {holder["job"] for holder in answer["holders"]} == {full.pk, small.pk}
    words = {option["kind"]: option["words"] for option in answer["options"]}
    assert words["nodes"] == "on 1 node instead of 2"
    ended = program(alice).get(f"/jobs/{small.pk}/options/").json()
    assert (ended["state"], ended["answer"]) == ("starting", None)


def test_foreign_holders_have_no_number_and_strangers_get_404(
    program, alice, carol, other_project, cluster, scheduler, project
):
    scenes.submit(carol, other_project, gpus_per_node=2, nodes=2)
    mine = scenes.submit(alice, project, now=scenes.at(1))
    scheduler.run_cycle(scenes.at(2))
    (holder,) = program(alice).get(f"/jobs/{mine.pk}/options/").json()["answer"]["holders"]
    assert (holder["job"], holder["gpus"]) == (None, 4)
    problem_of(program(carol).get(f"/jobs/{mine.pk}/options/"), 404)
    problem_of(program(carol).get(f"/jobs/{mine.pk}/before/1/"), 404)


def test_why_another_job_went_before(program, alice, queue):
    full, wide, small = queue
    caller = program(alice)
    first = caller.get(f"/jobs/{wide.pk}/before/{full.pk}/").json()
    assert (first["code"], first["sentence"]) == ("age", "It was submitted 1 s earlier.")
    passed = caller.get(f"/jobs/{wide.pk}/before/{small.pk}/").json()
    assert passed["code"] == "fitted"
    assert "what this job needs (4 GPUs on 2 nodes) was not" in passed["sentence"]
    behind = caller.get(f"/jobs/{full.pk}/before/{wide.pk}/").json()
    assert behind["code"] == "not_first"
    problem_of(caller.get(f"/jobs/{wide.pk}/before/{wide.pk}/"), 404)
    problem_of(caller.get(f"/jobs/{wide.pk}/before/999999/"), 404)


def test_under_fair_share_the_shares_of_both_say_why(
    program, alice, carol, project, other_project, cluster, scheduler
):
    scenes.submit(alice, project, gpus_per_node=2)
    scheduler.run_cycle(scenes.at(1))
    older = scenes.submit(alice, project, gpus_per_node=2, now=scenes.at(1))
    theirs = scenes.submit(carol, other_project, gpus_per_node=2, now=scenes.at(2))
    assert scheduler.run_cycle(scenes.at(3)).started == 1
    found = program(alice).get(f"/jobs/{older.pk}/before/{theirs.pk}/").json()
    assert found["code"] == "share"
    assert found["sentence"].endswith(
        "its team had 0 % of the cluster when it started; this job's team has now 50 %."
    )


def test_forecasts_are_compared_with_what_came(program, alice, queue):
    _, wide, small = queue
    told = StartForecast.objects.get(job=wide)
    assert told.p50_at == told.p90_at == scenes.at(7500), "two hours, in steps of five minutes"
    StartForecast.objects.create(
        job=small, told_at=scenes.at(0), p50_at=scenes.at(2), p90_at=scenes.at(4)
    )
    StartForecast.objects.update(told_at=timezone.now())
    found = program(alice).get("/scheduling/").json()
    (pool,) = found["forecasts"]
    assert (pool["waited"], pool["within_p50"], pool["within_p90"]) == (2, 0.0, 0.5), (
        "the wide one is overdue"
    )
    assert found["cycles"]["total_ms"]["p95"] >= found["cycles"]["plan_ms"]["p50"] > 0
