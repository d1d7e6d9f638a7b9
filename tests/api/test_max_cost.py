"""A highest price over REST."""

from __future__ import annotations

import pytest

from accounts.services import SERVICE_SCOPES, issue_service_token, make_service_account
from scheduler.models import Job
from scheduler.selectors.jobs import clone_document
from scheduler.services.finishing.paying import keep_prices
from scheduler.states import EndReason
from tests.api.conftest import Caller, fields_of, problem_of
from tests.recurring import schedule_of
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


def test_a_highest_price_is_submitted_read_and_refused_by_its_field(program, alice, cluster, spec):
    caller = program(alice)
    job = caller.post("/jobs/", {**spec, "max_cost": "12.5"}).json()
    assert job["max_cost"] == "12.50"
    assert caller.post("/jobs/", spec).json()["max_cost"] is None
    for wrong in (-1, 0, "much", "1_000", "\u0663", "NaN", "1e400", True, "0.0000001"):
        refused = problem_of(caller.post("/jobs/", {**spec, "max_cost": wrong}), 422)
        assert fields_of(refused) == {"max_cost"}, wrong


def test_who_may_not_see_costs_reads_no_highest_price_anywhere(
    program, alice, lead, team, project, cluster, spec
):
    """A program's account reads the jobs and specs of its team, and no costs."""
    account = make_service_account(actor=lead, team=team, name="ci")
    _, secret = issue_service_token(actor=lead, account=account, name="ci", scopes=SERVICE_SCOPES)
    service, owner, node = Caller(secret), program(alice), cluster.node(1)
    job = submit(alice, project, max_cost="0.7731")
    attempt = start(job, node)
    sync(node, running(attempt), now=at(1))
    told = owner.get(f"/jobs/{job.pk}/").json()
    assert (told["max_cost"], told["spec"]["max_cost"]) == ("0.7731", "0.7731")
    assert told["paid_until"] == "2026-11-20T12:12:18Z"
    schedule = schedule_of(alice, project, job={"max_cost": "0.7731"})
    places = [
        "/jobs/",
        *(f"/jobs/{job.pk}/{part}" for part in ("", "why/", "events/", "attempts/", "options/")),
        f"/schedules/{schedule.pk}/",
    ]

    def said():
        answers = [service.get(place) for place in places]
        assert {one.status_code for one in answers} <= {200, 409}
        assert service.get(f"/jobs/{job.pk}/").json()["spec"]["name"] == job.name
        return b"".join(one.content for one in answers)

    assert b"0.77" not in said()
    assert keep_prices(now=at(1000)) == 1
    sync(node, ended(attempt, reason=EndReason.TIME_LIMIT, exit_code=143), now=at(1001))
    assert b"0.77" not in said() and b"Its highest price was reached" in said()
    assert clone_document(account, Job.objects.get())["max_cost"] is None
    assert clone_document(alice, Job.objects.get())["max_cost"] == "0.7731"
    lead_sees = program(lead).get(f"/jobs/{job.pk}/").json()
    assert lead_sees["max_cost"] == "0.7731" and lead_sees["paid_until"] is None


def test_what_a_waiting_job_asks_for_instead_has_to_be_paid_too(program, alice, cluster, spec):
    caller = program(alice)
    job = caller.post("/jobs/", {**spec, "max_cost": "0.1", "hold": True}).json()
    more = {"gpus_per_node": 2, "dry_run": True}
    refused = problem_of(caller.post(f"/jobs/{job['id']}/change/", more), 422)
    assert fields_of(refused) == {"max_cost"}
    assert "give at least 0.19 EUR" in str(refused)


def test_it_is_changed_with_its_effect_told(program, alice, cluster, spec):
    caller = program(alice)
    number = caller.post("/jobs/", {**spec, "hold": True}).json()["id"]
    path = f"/jobs/{number}/change/"
    asked = caller.post(path, {"max_cost": 1, "dry_run": True}).json()
    assert "Its highest price, 1.00 EUR, is enough for 16m" in asked["impact"]["highest"]
    assert asked["job"]["max_cost"] is None
    assert caller.post(path, {"max_cost": 1}).json()["job"]["max_cost"] == "1.00"
    refused = problem_of(caller.post(path, {"max_cost": "much"}), 422)
    assert fields_of(refused) == {"max_cost"} and "or none" in str(refused)
    lifted = caller.post(path, {"max_cost": "none"}).json()
    assert lifted["job"]["max_cost"] is None and "time limit" in lifted["impact"]["highest"]
