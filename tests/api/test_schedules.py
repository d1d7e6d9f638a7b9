"""Schedules over REST: made, read, changed, paused, run and deleted, and refused by field."""

from __future__ import annotations

import pytest
from django.utils import timezone

from accounts.services import remove_member
from scheduler.models import Job, JobSchedule
from scheduler.services.recurring.running import submit_due
from tests import scenes
from tests.api.conftest import fields_of, problem_of
from tests.composing import make_template

pytestmark = pytest.mark.django_db
URL = "/schedules/"
JOB = {"name": "nightly", "project": "vision/digits", "script": "true"}
_ARRAY = {**JOB, "name": "sweep", "array": "0-2"}
BODY = {"name": "Nightly", "rule": "30 2 * * mon-fri", "zone": "Europe/Berlin", "spec": JOB}


@pytest.fixture
def cluster(root, project):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def test_a_schedule_from_its_making_to_its_end(program, cluster, alice):
    caller = program(alice)
    made = caller.post(URL, BODY)
    assert made.status_code == 201, made.content
    found = made.json()
    assert (found["state"], found["overlap"], found["owner"]) == ("active", "skip", "alice")
    assert len(found["next_times"]) == 5 and found["next_times"][0] == found["next_due_at"]
    assert found["spec"]["script"] == "true" and 20 <= found["a_month"] <= 23
    assert found["actions"] == ["change", "delete", "pause", "run"]
    one = f"{URL}{found['id']}/"
    changed = caller.post(one, {"rule": "@hourly", "version": 1}).json()
    assert (changed["rule"], changed["version"]) == ("@hourly", 2)
    problem_of(caller.post(one, {"rule": "@daily", "version": 1}), 412)
    ran = caller.post(f"{one}run/", {})
    assert (ran.status_code, ran.json()["by_hand"], ran.json()["job_state"]) == (
        201,
        True,
        "queued",
    )
    [run] = caller.get(f"{one}runs/").json()["items"]
    assert (run["job"], run["cost"]) == (ran.json()["job"], "0.0000000000")
    assert caller.post(f"{one}pause/", {}).json()["state"] == "paused"
    assert caller.post(f"{one}resume/", {}).json()["pause_reason"] == ""
    [row] = caller.get(f"{URL}?mine=1&project=vision/digits").json()["items"]
    assert (row["last_job"], row["last_outcome"]) == (run["job"], "submitted")
    left = caller.post(f"{one}delete/", {})
    assert left.json() == {"items": [], "next_cursor": None}
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "status", "fields"),
    [
        ({"rule": "61 * * * *"}, 422, {"rule"}),
        ({"zone": "Mars"}, 422, {"zone"}),
        ({"overlap": "both", "most_open": 0}, 400, {"overlap", "most_open"}),
        ({"spec": {**JOB, "gpus_per_node": 9}}, 422, {"spec.gpus_per_node"}),
        ({"spec": {**JOB, "begin": "+2h"}}, 422, {"spec.begin"}),
        ({"template": "none@1"}, 422, {"template"}),
        ({"when": "x"}, 400, {"when"}),
        ({"ends_at": "2020-01-01T00:00:00Z"}, 422, {"ends_at"}),
    ],
)
def test_bad_input_is_named(program, cluster, alice, changes, status, fields):
    refused = program(alice).post(URL, {**BODY, **changes})
    assert fields_of(problem_of(refused, status)) == fields
    assert not JobSchedule.objects.exists()


def test_others_read_leads_pause_and_strangers_find_nothing(
    program, cluster, alice, bob, lead, carol
):
    one = f"{URL}{program(alice).post(URL, BODY).json()['id']}/"
    assert program(bob).get(one).json()["actions"] == []
    problem_of(program(bob).post(f"{one}run/", {}), 403)
    for caller in (program(carol),):
        assert caller.get(URL).json()["items"] == []
        problem_of(caller.get(one), 404)
        problem_of(caller.post(f"{one}pause/", {"nonsense": 1}), 404)
    assert fields_of(problem_of(program(lead).post(f"{one}pause/", {}), 422)) == {"reason"}
    paused = program(lead).post(f"{one}pause/", {"reason": "too dear"}).json()
    assert (paused["paused_by"], paused["pause_reason"]) == ("lead", "too dear")


def test_a_template_s_rules_bind_it(program, cluster, alice, lead, team):
    slug = make_template(lead, team)
    body = {**BODY, "template": f"{slug}@1", "spec": {"project": "vision/digits"}}
    made = program(alice).post(URL, body).json()
    assert (made["template"], made["spec"]["gpus_per_node"]) == (f"{slug}@1", 2)
    wrong = {**body, "spec": {"project": "vision/digits", "gpus_per_node": 4, "tier": "urgent"}}
    assert fields_of(problem_of(program(alice).post(URL, wrong), 422)) == {"spec.tier"}


def test_values_of_secrets_are_its_owner_s_alone(program, cluster, alice, bob):
    spec = {**JOB, "env": {"HF_TOKEN": "hf_1234567890"}}
    made = program(alice).post(URL, {**BODY, "spec": spec}).json()
    assert made["spec"]["env"]["HF_TOKEN"] == "hf_1234567890"
    shown = program(bob).get(f"{URL}{made['id']}/").content.decode()
    assert "hf_1234567890" not in shown


def test_pages_of_many_take_a_constant_number_of_queries(
    program, cluster, alice, django_assert_max_num_queries
):
    caller = program(alice)
    for number in range(3):
        made = caller.post(URL, {**BODY, "name": f"N{number}", "rule": "@hourly"}).json()
        JobSchedule.objects.filter(pk=made["id"]).update(next_due_at=made["created_at"])
    assert submit_due(now=timezone.now()) == 3
    with django_assert_max_num_queries(8):
        assert len(caller.get(URL).json()["items"]) == 3
    with django_assert_max_num_queries(12):
        caller.get(f"{URL}{made['id']}/runs/")


def test_its_jobs_are_found_by_its_number(program, cluster, alice, bob, carol):
    caller = program(alice)
    caller.post("/jobs/", JOB)
    made = [caller.post(URL, {**BODY, "spec": spec}).json()["id"] for spec in (JOB, _ARRAY)]
    first, second = [caller.post(f"{URL}{one}/run/", {}).json()["job"] for one in made]
    found = caller.get(f"/jobs/?schedule={made[0]}").json()["items"]
    assert [one["id"] for one in found] == [first]
    assert caller.get(f"/jobs/{first}/").json()["schedule"] == made[0]
    tasks = caller.get(f"/jobs/?q=schedule:{made[1]}").json()["items"]
    assert second in {one["id"] for one in tasks} and len(tasks) == 3
    assert {caller.get(f"/jobs/{one['id']}/").json()["schedule"] for one in tasks} == {made[1]}
    assert len(program(bob).get(f"/jobs/?schedule={made[1]}").json()["items"]) == 3
    for path in (f"/jobs/?schedule={made[0]}", f"/jobs/?q=schedule:{made[0]}"):
        problem_of(program(carol).get(path), 404)
    problem_of(caller.get("/jobs/?schedule=x"), 400)
    problem_of(caller.get("/jobs/?q=schedule:x"), 400)


def test_a_lead_takes_over_who_has_left_and_reads_what_was_done(
    program, cluster, root, alice, bob, carol, lead, team
):
    one = f"{URL}{program(alice).post(URL, BODY).json()['id']}/"
    program(alice).post(one, {"rule": "@hourly"})
    leads = program(lead)
    assert problem_of(leads.post(f"{one}take-over/", {}), 409)["code"] == "owner_here"
    assert not leads.get(one).json()["owner_left"]
    remove_member(actor=root, team=team, user=alice)
    found = leads.get(one).json()
    assert found["owner_left"] and found["actions"] == ["delete", "pause", "take_over"]
    problem_of(program(bob).post(f"{one}take-over/", {}), 403)
    for stranger in (program(carol), program(alice)):
        problem_of(stranger.post(f"{one}take-over/", {}), 404)
        problem_of(stranger.get(f"{one}history/"), 404)
    taken = leads.post(f"{one}take-over/", {"reason": "she has left"}).json()
    assert (taken["owner"], taken["state"], taken["owner_left"]) == ("lead", "paused", False)
    acts = program(bob).get(f"{one}history/").json()["items"]
    assert [(act["act"], act["actor"]) for act in acts] == [
        ("taken over", "lead"),
        ("changed", "alice"),
        ("made", "alice"),
    ]
    assert acts[0]["reason"] == "she has left"
    assert acts[1]["changes"] == [
        {"field": "rule", "before": "30 2 * * mon-fri", "after": "@hourly"}
    ]
