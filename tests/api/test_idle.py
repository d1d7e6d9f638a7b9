"""GPUs that do little, over REST: the rule, its trial, the job that is still needed."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduler.models import IdleRule, IdleWarning
from tests import idling, scenes
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db
URL = "/projects/vision/digits/idle-rule/"


def test_leads_try_set_and_end_it(program, alice, lead, carol, project):
    assert program(alice).get(URL).json()["is_on"] is False
    caller = program(lead)
    body = {"act": "stop", "warn_minutes": 45, "act_minutes": 20}
    tried = caller.post(f"{URL}trial/", {**body, "days": 3}).json()
    assert (tried["days"], tried["warned"], tried["rows"]) == (3, 0, [])
    assert not IdleRule.objects.exists()
    found = caller.post(URL, body).json()
    assert (found["is_on"], found["warn_minutes"], found["set_by"]) == (True, 45, "lead")
    assert (found["below_percent"], found["also"]) == (5, [])
    wrong = {**body, "act": "shrink", "warn_minutes": 1}
    assert fields_of(problem_of(caller.post(URL, wrong), 400)) == {"act", "warn_minutes"}
    assert fields_of(problem_of(caller.post(URL, {"act": "stop"}), 422)) == {"act_minutes"}
    problem_of(program(alice).post(URL, body), 403)
    problem_of(program(carol).get(URL), 404)
    ended = caller.client.delete(f"/api/v1{URL}", **caller.headers)
    assert ended.json()["is_on"] is False


def test_operators_set_that_of_a_pool(program, root, alice, operator, project):
    scenes.build_cluster(root, nodes=1, gpus=1)
    url = "/pools/default/idle-rule/"
    problem_of(program(alice).post(url, {"act": "tell"}), 403)
    assert program(operator).post(url, {"act": "tell"}).json()["owner"] == "pool default"
    assert [one["act"] for one in program(alice).get(URL).json()["also"]] == ["tell"]
    problem_of(program(alice).get("/pools/none/idle-rule/"), 404)


def test_a_warned_job_says_so_and_is_kept(program, root, alice, bob, lead, project):
    cluster = scenes.build_cluster(root, nodes=1, gpus=1)
    attempt = idling.runs(cluster, alice, project)
    now = timezone.now()
    problem_of(program(alice).post(f"/jobs/{attempt.job_id}/keep/", _KEEP), 409)
    rule = idling.rule_for(lead, project)
    IdleWarning.objects.create(
        attempt=attempt, rule=rule, rule_version=1, warned_at=now, looked_at=now,
        idle_since=now - idling.timedelta(minutes=20), below_percent=5, gpus=1, readings=20,
        highest_percent=1, act="pause", act_at=now + idling.timedelta(minutes=15),
    )  # fmt: skip
    caller = program(alice)
    why = caller.get(f"/jobs/{attempt.job_id}/why/").json()
    assert why["sentence"].startswith("Its GPUs do little: its GPU stayed below 5 %")
    assert why["idle"]["warnings"][0]["act"] == "pause" and why["idle"]["hours_left"] == 5
    problem_of(program(bob).post(f"/jobs/{attempt.job_id}/keep/", _KEEP), 403)
    refused = caller.post(f"/jobs/{attempt.job_id}/keep/", {"hours": 6, "reason": "x"})
    assert fields_of(problem_of(refused, 422)) == {"hours"}
    refused = caller.post(f"/jobs/{attempt.job_id}/keep/", {"hours": 0})
    assert fields_of(problem_of(refused, 400)) == {"hours", "reason"}
    kept = caller.post(f"/jobs/{attempt.job_id}/keep/", _KEEP).json()["idle"]
    assert kept["warnings"] == [] and kept["kept"]["reason"] == "reads its data"


_KEEP = {"hours": 2, "reason": "reads its data"}
