"""What a job asks to be told of, over REST: written, refused, read back."""

from __future__ import annotations

import pytest

from scheduler.models import Job
from scheduler.states import NoticeKind
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db


def test_it_is_taken_and_refused_by_its_field(program, alice, project, cluster):
    caller = program(alice)
    body = {"name": "train", "project": project.path, "command": "true", "notify": "fail,warn"}
    made = caller.post("/jobs/", body)
    assert made.status_code == 201, made.content
    job = Job.objects.get()
    assert job.notify == ["fail", "warn"]
    assert caller.get(f"/jobs/{job.pk}/").json()["spec"]["notify"] == ["fail", "warn"]
    refused = problem_of(caller.post("/jobs/", {**body, "notify": "none,end"}), 422)
    (error,) = refused["errors"]
    assert error["field"] == "notify" and "none stands alone" in error["message"]


def test_what_only_jobs_ask_for_is_no_choice(program, alice):
    caller = program(alice)
    items = caller.get("/notifications/settings/").json()["items"]
    assert [one["kind"] for one in items] == list(NoticeKind), "all that a channel may be told of"
    given = {one["kind"]: one for one in items if not one["is_open"]}
    assert set(given) == {"job_started", "job_ending"}
    assert all(one["in_inbox"] and one["by_mail"] for one in given.values())
