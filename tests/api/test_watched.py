"""Watching the job of another, over REST."""

from __future__ import annotations

import pytest

from scheduler.services.jobs import cancel_job
from tests.api.conftest import problem_of
from tests.scenes import build_cluster, submit

pytestmark = pytest.mark.django_db


def test_a_colleague_watches_stops_and_strangers_find_nothing(
    program, root, alice, bob, carol, project
):
    build_cluster(root, nodes=1, gpus=1)
    job = submit(alice, project)
    url, caller = f"/jobs/{job.pk}/watch/", program(bob)
    for _ in range(2):
        shown = caller.post(url, {}).json()
        assert shown["is_watched"] and [one["person"] for one in shown["items"]] == ["bob"]
    seen = program(alice).get(url).json()
    assert not seen["is_watched"] and len(seen["items"]) == 1
    assert problem_of(program(alice).post(url, {}), 409)["code"] == "own_job"
    for missing in (url, f"/jobs/{job.pk + 1000}/watch/"):
        stranger = program(carol)
        problem_of(stranger.get(missing), 404)
        problem_of(stranger.post(missing, {}), 404)
        gone = stranger.client.delete(f"/api/v1{missing}", **stranger.headers)
        assert gone.status_code == 404
    problem_of(program(bob, ["jobs:read"]).post(url, {}), 403)
    assert caller.client.delete(f"/api/v1{url}", **caller.headers).status_code == 204
    assert caller.get(url).json()["items"] == []
    assert caller.post(url, {"also": ["warn"]}).json()["also"] == ["warn"]
    assert caller.get("/watches/").json()["items"][0]["also"] == ["warn"]
    refused = problem_of(caller.post(url, {"also": ["end"]}), 400)
    assert "also" in str(refused["errors"])
    cancel_job(actor=alice, job=job)
    assert problem_of(caller.post(url, {}), 409)["code"] == "job_over"


def test_an_array_is_watched_by_its_number(program, root, alice, bob, carol, project):
    build_cluster(root, nodes=1, gpus=1)
    task = submit(alice, project, array="0-1")
    url = f"/sets/{task.job_set_id}/watch/"
    assert program(bob).post(url, {}).json()["is_watched"]
    assert program(bob).get(f"/jobs/{task.pk}/watch/").json()["is_watched"]
    problem_of(program(carol).post(url, {}), 404)
    (mine,) = program(bob).get("/watches/").json()["items"]
    assert (mine["job"], mine["set"], mine["owner"]) == (None, task.job_set_id, "alice")
    assert program(alice).get("/watches/").json()["items"] == []
    caller = program(bob)
    assert caller.client.delete(f"/api/v1{url}", **caller.headers).status_code == 204
    assert caller.get("/watches/").json()["items"] == []
