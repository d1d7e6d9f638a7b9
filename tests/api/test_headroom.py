"""Headroom over REST, down to the plan."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import AuditEvent
from scheduler.engine.cycle import plan_cycle
from scheduler.loop.loading import load_snapshot
from scheduler.models import Job
from scheduler.services.sharing.policies import policy_in_force
from scheduler.states import Tier
from tests import scenes
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator_calls(program, root, cluster):
    """A program of the administrator; production may stop others."""
    caller = program(root)
    assert caller.post("/rules/policies/", {"name": "fifo", "preempts": True}).status_code == 201
    return caller


def headroom(gpus=2, **more):
    return {"pool": "default", "gpus": gpus, **more}


def test_it_is_set_seen_recorded_and_taken_away(operator_calls, program, alice):
    (item,) = operator_calls.post("/rules/headroom/", headroom()).json()["items"]
    assert item == {
        "pool": "default",
        "gpu_model": "",
        "gpus": 2,
        "in_production": 0,
        "lent": 0,
        "free": 4,
    }
    assert program(alice).get("/rules/headroom/").json()["items"] == [item]
    problem_of(program(alice).post("/rules/headroom/", headroom()), 403)
    assert operator_calls.post("/rules/headroom/", headroom(0)).json()["items"] == []
    recorded = AuditEvent.objects.filter(action="pool.headroom").order_by("pk")
    assert [json.loads(event.after) for event in recorded] == [{"headroom": 2}, {"headroom": 0}]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"gpus": 5}, "gpus"),
        ({"gpus": -1}, "gpus"),
        ({"gpu_model": "B200"}, "gpu_model"),
        ({"pool": "ghost"}, "pool"),
    ],
)
def test_bad_headroom_is_refused_by_field(operator_calls, wrong, field):
    response = operator_calls.post("/rules/headroom/", headroom(**{"gpus": 1, **wrong}))
    assert fields_of(problem_of(response, response.status_code)) == {field}


def test_what_would_have_no_effect_is_refused_both_ways_round(program, root, cluster):
    caller = program(root)
    caller.post("/rules/policies/", {"name": "fifo", "preempts": False})
    assert fields_of(problem_of(caller.post("/rules/headroom/", headroom()), 422)) == {"gpus"}
    caller.post("/rules/policies/", {"name": "fifo", "preempts": True})
    caller.post("/rules/headroom/", headroom())
    off = caller.post("/rules/policies/", {"name": "fifo", "preempts": False})
    assert fields_of(problem_of(off, 422)) == {"preempts"}
    assert policy_in_force().preempts


def test_firm_jobs_are_kept_off_lent_ones_are_counted_and_production_takes_it_back(
    operator_calls, program, alice, root, project, cluster
):
    operator_calls.post("/rules/headroom/", headroom(2))
    now = timezone.now()
    for name, more in (("firm", {"preemptible": False}), ("lent", {})):
        job = scenes.submit(alice, project, name=name, gpus_per_node=2, now=now, **more)
        scenes.start(job, cluster.node(1 if name == "firm" else 2), now=now)
    scenes.submit(alice, project, name="late", preemptible=False, now=now)
    urgent = scenes.submit(root, project, name="now", gpus_per_node=2, now=now)
    Job.objects.filter(pk=urgent.pk).update(tier=Tier.PRODUCTION)
    (item,) = program(alice).get("/rules/headroom/").json()["items"]
    assert (item["lent"], item["free"]) == (2, 0)
    later = now + timedelta(seconds=5)
    loaded = load_snapshot(later).with_running(rest_s=0, now=later)
    plan = plan_cycle(loaded.snapshot, policy_in_force())
    assert [(stop.beneficiary, start.job) for stop in plan.stops for start in plan.starts] == [
        (urgent.pk, urgent.pk)
    ]


def test_who_is_kept_off_is_told_so(operator_calls, alice, project, cluster):
    operator_calls.post("/rules/headroom/", headroom(3))
    now = timezone.now()
    scenes.submit(alice, project, gpus_per_node=2, preemptible=False, now=now)
    plan = plan_cycle(load_snapshot(now).snapshot)
    (wait,) = plan.iter_waits()
    assert str(wait.reason) == "reservation_conflict"
    assert wait.facts["headroom"] == 3
