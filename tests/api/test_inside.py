"""A token without `logs:read` shows nothing from inside of jobs, whoever it is of."""

from __future__ import annotations

import pytest

from accounts.services import issue_token
from scheduler.models import Attempt, Job
from scheduler.states import EndReason
from tests import scenes
from tests.api.conftest import Caller, problem_of
from tests.api.test_schedules import BODY, JOB

pytestmark = pytest.mark.django_db
WITHOUT = ("jobs:read", "jobs:write")
_LOG = b"step 1\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\nwarning\n"


@pytest.fixture
def failed(cluster, alice, project) -> Job:
    """It has evidence, a checkpoint that its node confirmed, and a warning."""
    job = scenes.submit(alice, project, script="python secret_plan.py")
    attempt, node = scenes.start(job, cluster.node(1)), cluster.node(1)
    scenes.sync(node, scenes.running(attempt))
    scenes.write_log(node, attempt, _LOG)
    end = scenes.ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1, log_size=len(_LOG))
    scenes.sync(node, end)
    Attempt.objects.filter(pk=attempt.pk).update(
        warnings=1, resume_from="/data/plan/step-1", checkpoint_problem="no /data/plan"
    )
    return job


@pytest.fixture(params=["of its owner", "of an administrator"])
def person(request, alice, root):
    return alice if request.param == "of its owner" else root


def test_what_is_taken_from_logs_and_specs_is_not_shown(program, person, failed):
    within, without = program(person), program(person, WITHOUT)
    for path in ("", "why/", "attempts/", "events/"):
        told, kept = (c.get(f"/jobs/{failed.pk}/{path}") for c in (within, without))
        assert told.status_code == kept.status_code == 200
        for word in ("secret_plan", "fallen off", "/data/plan"):
            assert word not in kept.content.decode(), (path, word)
    told, kept = (c.get(f"/jobs/{failed.pk}/").json() for c in (within, without))
    assert "secret_plan" in str(told["spec"]) and told["warnings"] == 1
    assert "fallen off" in str(told["triage"]["evidence"])
    assert kept["spec"] is kept["warnings"] is None and kept["triage"]["evidence"] == []
    # How it ended is no inside of it.
    assert kept["triage"]["failure"] == told["triage"]["failure"] and kept["end"] == told["end"]
    problem_of(without.get(f"/jobs/{failed.pk}/log/"), 403, "scope_missing")


def test_lists_neither_say_nor_find_it(program, person, failed):
    for scopes, wanted in ((None, 1), (WITHOUT, None)):
        caller = program(person, scopes) if scopes else program(person)
        assert [one["warnings"] for one in caller.get("/jobs/").json()["items"]] == [wanted]
        found = caller.get("/jobs/?q=warnings:>0").json()["items"]
        assert len(found) == bool(wanted)


def test_it_is_run_again_without_being_shown(program, alice, failed):
    made = program(alice, WITHOUT).post(f"/jobs/{failed.pk}/clone/", {})
    assert made.status_code == 201 and made.json()["spec"] is None
    assert "secret_plan" in str(Job.objects.get(pk=made.json()["id"]).spec)


def test_nor_what_a_schedule_submits(program, alice, cluster, project):
    number = program(alice).post("/schedules/", {**BODY, "spec": {**JOB}}).json()["id"]
    assert program(alice).get(f"/schedules/{number}/").json()["spec"]["script"] == "true"
    assert program(alice, WITHOUT).get(f"/schedules/{number}/").json()["spec"] is None


def test_a_bound_token_alike(alice, project, failed):
    for scopes, shown in ((WITHOUT, False), ((*WITHOUT, "logs:read"), True)):
        _, secret = issue_token(actor=alice, name="ci", scopes=scopes, project=project)
        found = Caller(secret).get(f"/jobs/{failed.pk}/").json()
        assert (found["spec"] is not None, found["warnings"] == 1) == (shown, shown)
