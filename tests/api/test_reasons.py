"""A word for the owner of another's job, over REST and on the command line."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.services.bookings import end_booked_jobs, plan_booking
from tests import scenes
from tests.api.conftest import problem_of
from tests.scenes import submit

pytestmark = pytest.mark.django_db
WHY = "makes room for the deadline"


@pytest.fixture
def job(root, alice, project):
    scenes.build_cluster(root)
    return submit(alice, project, name="train")


@pytest.mark.parametrize("act", ["cancel", "hold", "pause"])
def test_anothers_needs_one(act, job, program, lead):
    caller, url = program(lead), f"/jobs/{job.pk}/{act}/"
    for body in ({}, {"reason": ""}, {"reason": "  "}):
        found = problem_of(caller.post(url, body), 422, "reason_needed")
        assert [one["field"] for one in found["errors"]] == ["reason"]
        assert "one line of at most 200" in found["detail"]
    for said in ("x" * 201, "a\nb"):
        found = problem_of(caller.post(url, {"reason": said}), 422, "invalid")
        assert [one["field"] for one in found["errors"]] == ["reason"]
    assert caller.get(f"/jobs/{job.pk}/").json()["state"] == "queued"


def test_whoever_may_read_the_job_reads_it_and_nobody_else(job, program, alice, lead, bob, carol):
    held = program(lead).post(f"/jobs/{job.pk}/hold/", {"reason": WHY}).json()
    assert held["wait"]["facts"]["because"] == WHY
    assert WHY in held["wait"]["sentence"]
    shown = program(alice).post(f"/jobs/{job.pk}/release/").json()
    assert shown["state"] == "queued"
    program(lead).post(f"/jobs/{job.pk}/cancel/", {"reason": WHY})
    for one in (alice, bob):
        caller = program(one)
        end = caller.get(f"/jobs/{job.pk}/").json()["end"]
        assert (end["because"], end["reason"]) == (WHY, "cancelled_by_user")
        assert end["sentence"].endswith(f": {WHY}.")
        events = caller.get(f"/jobs/{job.pk}/events/").json()["items"]
        assert {one["kind"] for one in events if WHY in str(one)} == {"held", "cancelled"}
        assert WHY in caller.get(f"/jobs/{job.pk}/why/").json()["sentence"]
    stranger = program(carol)
    for path in ("", "events/", "why/"):
        problem_of(stranger.get(f"/jobs/{job.pk}/{path}"), 404)
    problem_of(stranger.post(f"/jobs/{job.pk}/cancel/", {"reason": WHY}), 404)
    problem_of(stranger.post(f"/jobs/{job.pk}/cancel/"), 404)


def test_ones_own_needs_none_and_keeps_one(job, program, alice):
    done = program(alice).post(f"/jobs/{job.pk}/cancel/", {"reason": "wrong flag"}).json()
    assert done["end"]["because"] == "wrong flag"


def test_release_against_the_owners_own_hold(job, program, alice, lead):
    program(alice).post(f"/jobs/{job.pk}/hold/")
    url = f"/jobs/{job.pk}/release/"
    problem_of(program(lead).post(url), 422, "reason_needed")
    assert program(lead).post(url, {"reason": WHY}).json()["state"] == "queued"


def test_a_booking_with_jobs_of_others(root, program, alice, lead, project):
    cluster = scenes.build_cluster(root)
    now = timezone.now()
    times = {"from_at": now + timedelta(hours=1), "until_at": now + timedelta(hours=9)}
    booking = plan_booking(actor=lead, owner=project, pool=cluster.pool, nodes=1, **times)
    job = submit(alice, project, booking=str(booking.pk), now=now)
    caller, here = program(lead), f"/bookings/{booking.pk}/"
    sooner = {"version": 1, "until_at": (now + timedelta(hours=2)).isoformat()}
    problem_of(caller.post(here, sooner), 422, "reason_needed")
    assert caller.post(here, {**sooner, "reason": WHY}).status_code == 200
    problem_of(caller.post(f"{here}cancel/"), 422, "reason_needed")
    assert caller.post(f"{here}cancel/", {"reason": WHY}).json()["state"] == "cancelled"
    end_booked_jobs(now=timezone.now())
    end = program(alice).get(f"/jobs/{job.pk}/").json()["end"]
    assert (end["because"], end["reason"]) == (WHY, "booking_ended")
    assert f"was ended early by {lead.get_full_name()}: {WHY}." in end["sentence"]


def test_an_array(program, root, alice, lead, project):
    scenes.build_cluster(root)
    array = submit(alice, project, array="0-3").job_set
    url = f"/sets/{array.pk}/cancel/"
    problem_of(program(lead).post(url), 422, "reason_needed")
    assert program(lead).post(url, {"reason": WHY}).json()["tasks"] == 4
