"""Checkpoints, losses and pauses as programs read and ask for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.models import Attempt
from scheduler.states import EndReason
from scheduler.wire.messages import Checkpoint
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


def test_pause_resume_and_what_was_saved(program, alice, bob, finance, cluster, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    saved = Checkpoint("/c/step-7", 7, 99, "ab" * 32, at(50).timestamp())
    report = replace(running(attempt), started_at=NOON.timestamp(), checkpoint=saved)
    sync(cluster.node(1), report, now=at(60))
    caller, mate = program(alice), program(bob)
    assert "pause" in caller.get(f"/jobs/{job.pk}/").json()["actions"]
    assert mate.post(f"/jobs/{job.pk}/pause/").status_code == 403
    reply = caller.post(f"/jobs/{job.pk}/pause/")
    assert (reply.status_code, reply.json()["state"]) == (200, "stopping")
    sync(cluster.node(1), ended(attempt, reason=EndReason.PREEMPTED), now=at(80))

    detail = caller.get(f"/jobs/{job.pk}/").json()
    assert (detail["state"], detail["shown_state"]) == ("held", "paused")
    assert detail["end"]["reason"] == "paused_by_user"
    assert detail["checkpoint"] == {
        "attempt": 1,
        "step": 7,
        "bytes": 99,
        "digest": "ab" * 32,
        "taken_at": "2026-11-20T12:00:50Z",
        "node": "n1",
        "path": "/c/step-7",
    }
    (shown,) = caller.get(f"/jobs/{job.pk}/attempts/").json()["items"]
    assert (shown["lost_s"], shown["lost_gpu_s"]) == (30, 30)
    assert shown["checkpoint"] == detail["checkpoint"]
    why = caller.get(f"/jobs/{job.pk}/why/").json()
    assert why["sentence"].startswith("Paused by ")
    assert why["checkpoint"] == detail["checkpoint"]
    assert why["end"]["sentence"].endswith("Lost 30 s of work; it resumes from step 7.")
    assert program(finance).get(f"/jobs/{job.pk}/").json()["checkpoint"]["path"] == ""

    resumed = caller.post(f"/jobs/{job.pk}/resume/").json()
    assert (resumed["state"], resumed["queued_at"]) == ("queued", detail["queued_at"])
    assert caller.post(f"/jobs/{job.pk}/cancel/").json()["state"] == "cancelled"
    assert caller.post(f"/jobs/{job.pk}/pause/").status_code == 409


def test_why_a_job_starts_anew_is_told_to_those_who_may_read_inside(
    client, alice, finance, cluster, project
):
    words = "checkpoint folder /of-the-job/x: No such file"
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), replace(running(attempt), resume_problem=words), now=at(60))
    assert Attempt.objects.get(job=job).resume_problem == words
    assigned = job.events.get(kind="assigned")
    assigned.detail |= {"starts_anew": words}
    assigned.save()
    pages = [f"/jobs/{job.pk}/", f"/jobs/{job.pk}/events/"]
    calls = [f"/api/v1/jobs/{job.pk}/attempts/", f"/api/v1/jobs/{job.pk}/events/"]
    for person, is_told in ((alice, True), (finance, False)):
        client.force_login(person)
        for place in (*pages, *calls):
            reply = client.get(place)
            assert reply.status_code == 200
            assert ("/of-the-job" in reply.content.decode()) == is_told, (person, place)
