"""The simulator over REST: asked, answered, taken out as traces, forgotten."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Job, Scenario
from scheduler.services.nodes import create_pool
from scheduler.services.simulating.scenarios import simulate_scenarios
from scheduler.simulator.traces.reading import parse_trace
from tests import scenes
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def past(root, alice, project, cluster):
    """Two pools; an hour of three jobs that came at once, two of them in the larger pool."""
    other = scenes.Cluster(root, create_pool(actor=root, name="large"), [])
    scenes.add_node(other, "m1", 4)
    begin = timezone.now() - timedelta(hours=8)
    for number, pool in enumerate(("default", "large", "large")):
        job = scenes.submit(alice, project, gpus_per_node=1 + number, pool=pool, now=begin)
        Job.objects.filter(pk=job.pk).update(
            state="succeeded", queued_at=begin, started_at=begin,
            ended_at=begin + timedelta(hours=1), end_reason="completed",
        )  # fmt: skip


def test_all_pools_are_replayed_together_and_come_out_as_traces(program, client, operator, past):
    caller = program(operator)
    body = {"hours": 24, "changes": ["nodes:large=2", "placement:large=pack"]}
    made = caller.post("/simulator/", body)
    assert (made.status_code, made.json()["progress"]) == (202, "waiting")
    here = f"/simulator/{made.json()['id']}/"
    problem_of(caller.get(f"{here}trace/"), 409)
    assert simulate_scenarios() == 1
    answer = caller.get(here).json()["answer"]
    assert [one["name"] for one in answer["pools"]] == ["default", "large"]
    before, after = answer["pools"][1]["measures"]
    assert (before["jobs"], before["wait_p90_s"], after["wait_p90_s"]) == (2, 3240, 0)
    assert answer["policy"][1].count("pack") == 1 and "traces" not in answer
    for of, ends in (("base", 7200), ("changed", 3600)):
        reply = caller.get(f"{here}trace/?of={of}")
        assert reply["Content-Type"] == "text/csv"
        lines = reply.content.decode().splitlines()
        trace = parse_trace(lines)
        assert sorted(trace.pool) == ["default", "large", "large"]
        last = max(float(line.split(",")[-4]) for line in lines[1:])
        assert last - trace.submit_s.max() == pytest.approx(ends, abs=2)
    real = parse_trace(caller.get("/simulator/trace/?pool=large").content.decode().splitlines())
    assert (real.gpus.tolist(), real.duration_s.tolist()) == ([2, 3], [3600, 3600])
    assert caller.get("/simulator/").json()["items"][0]["pool"] == ""
    client.force_login(operator)
    assert client.delete(f"/api/v1{here}").json()["items"] == []
    assert not Scenario.objects.exists()


@pytest.mark.once
def test_what_cannot_be_replayed_is_refused_by_field(program, operator, past):
    caller = program(operator)
    for change, words in (
        ("nodes=3", "say of which pool"),
        ("maximum:vision@small=3", "no pool 'small'"),
        ("nodes:large=9999999", "from 1 to 999999"),
    ):
        refused = problem_of(caller.post("/simulator/", {"hours": 9, "changes": [change]}), 422)
        assert fields_of(refused) == {"changes"} and words in str(refused)
    problem_of(caller.post("/simulator/", {"pool": "x", "hours": 9, "changes": ["nodes=1"]}), 404)
    problem_of(caller.get("/simulator/trace/?hours=0"), 400)
