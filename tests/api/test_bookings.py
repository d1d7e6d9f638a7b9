"""Bookings over REST, down to the plan."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from portal.cli.cluster.bookings import moment
from portal.cli.exits import Failure
from scheduler.engine.cycle import plan_cycle
from scheduler.loop.loading import load_snapshot
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db


def booking(project, **more):
    now = timezone.now()
    return {
        "owner": project.path,
        "pool": "default",
        "nodes": 1,
        "from_at": (now + timedelta(hours=1)).isoformat(),
        "until_at": (now + timedelta(hours=3)).isoformat(),
        **more,
    }


def test_bookings_are_made_seen_changed_and_given_back(program, cluster, lead, carol, project):
    caller = program(lead)
    made = caller.post("/bookings/", booking(project, name="exam", note="new model"))
    assert made.status_code == 201
    item = made.json()
    assert (item["state"], item["owner"], item["version"]) == ("planned", project.path, 1)
    assert caller.get(f"/bookings/{item['id']}/").json() == item
    assert caller.get("/bookings/").json()["items"] == [item]
    (foreign,) = program(carol).get("/bookings/").json()["items"]
    assert (foreign["nodes"], foreign["owner"], foreign["note"]) == (1, None, None)
    problem_of(program(carol).get(f"/bookings/{item['id']}/"), 404)
    problem_of(program(carol).post(f"/bookings/{item['id']}/cancel/"), 404)
    (slot,) = plan_cycle(load_snapshot(timezone.now()).snapshot).timeline
    assert (slot.kind, slot.owner) == ("booking", item["id"])
    edited = caller.post(f"/bookings/{item['id']}/", {"version": 1, "nodes": 2}).json()
    assert (edited["nodes"], edited["version"], len(edited["node_names"])) == (2, 2, 2)
    stale = caller.post(f"/bookings/{item['id']}/", {"version": 1, "nodes": 1})
    assert problem_of(stale, 412)["facts"]["version"] == 2
    problem_of(caller.post(f"/bookings/{item['id']}/cancel/", {"version": 1}), 412)
    assert caller.post(f"/bookings/{item['id']}/cancel/").json()["state"] == "cancelled"
    assert caller.get("/bookings/").json()["items"] == []


def test_a_booking_that_became_too_small_for_who_waits_in_it_says_so(
    program, cluster, lead, alice, carol, project, spec, client
):
    made = program(lead).post("/bookings/", booking(project, nodes=2)).json()
    inside = {**spec, "booking": made["id"]}
    for more in ({"nodes": 2}, {"nodes": "1..2"}, {}):
        answer = program(alice).post("/jobs/", {**inside, **more})
        assert answer.status_code == 201, answer.json()
    path = f"/bookings/{made['id']}/"
    assert program(lead).get(path).json()["jobs_too_large"] == 0
    edited = program(lead).post(path, {"version": 1, "nodes": 1}).json()
    assert (edited["jobs"], edited["jobs_too_large"]) == (3, 1)
    (item,) = program(alice).get("/bookings/").json()["items"]
    assert item["jobs_too_large"] == 1
    (item,) = program(carol).get("/bookings/").json()["items"]
    assert item["jobs_too_large"] is None
    client.force_login(lead)
    assert "too small for 1 that waits" in client.get("/bookings/").content.decode()
    edited = program(lead).post(path, {"version": 2, "nodes": 2, "gpus_per_node": 1}).json()
    assert edited["jobs_too_large"] == 0


def test_members_see_and_use_bookings_but_make_none(program, cluster, lead, alice, project, spec):
    problem_of(program(alice).post("/bookings/", booking(project)), 403)
    made = program(lead).post("/bookings/", booking(project)).json()
    problem_of(program(alice).post(f"/bookings/{made['id']}/cancel/"), 403)
    job = program(alice).post("/jobs/", {**spec, "booking": made["id"]})
    assert job.status_code == 201
    refused = program(alice).post("/jobs/", {**spec, "booking": "ghost"})
    assert fields_of(problem_of(refused, 422)) == {"booking"}


def test_a_clash_says_with_what(program, cluster, lead, project):
    caller = program(lead)
    first = caller.post("/bookings/", booking(project, nodes=2)).json()
    clash = problem_of(caller.post("/bookings/", booking(project)), 409, "booking_clash")
    assert clash["facts"]["bookings"] == [first["id"]]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"until_at": "2020-01-01T00:00:00Z"}, "until_at"),
        ({"from_at": "2030-01-01T00:00:00"}, "from_at"),
        ({"nodes": 0}, "nodes"),
        ({"nodes": 3}, "nodes"),
        ({"gpus_per_node": -1}, "gpus_per_node"),
        ({"pool": "ghost"}, "pool"),
        ({"owner": "ghost"}, "owner"),
        ({"owner": ""}, "owner"),
    ],
)
def test_bad_bookings_are_refused_by_field(program, cluster, lead, project, wrong, field):
    response = program(lead).post("/bookings/", booking(project, **wrong))
    assert 400 <= response.status_code < 500
    assert fields_of(problem_of(response, response.status_code)) == {field}


def test_the_command_line_reads_moments_as_people_write_them():
    since = datetime.fromisoformat("2026-11-27T18:00:00+00:00")
    assert moment("+2h", since, "--from") == since + timedelta(hours=2)
    assert moment("2026-11-27T18:00Z", since, "--from") == since
    assert moment("2026-11-27T18:00", since, "--from").tzinfo is not None
    with pytest.raises(Failure, match=r"--from: .* is no time"):
        moment("soon", since, "--from")
