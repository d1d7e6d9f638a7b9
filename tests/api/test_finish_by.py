"""A moment by which a job has to be finished, over REST."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Job
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db


def within(hours: float) -> str:
    at = timezone.now() + timedelta(hours=hours)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_moment_is_submitted_read_changed_and_filtered_by(
    program, alice, carol, other_project, cluster, spec
):
    caller, by = program(alice), within(5)
    asked = {**spec, "finish_by": by, "finish_by_policy": "cancel"}
    job = caller.post("/jobs/", asked).json()
    assert (job["finish_by"], job["finish_by_policy"]) == (by, "cancel")
    assert job["finish"]["outlook"] == "unknown"
    why = caller.get(f"/jobs/{job['id']}/why/").json()
    assert why["finish"]["finish_by"] == by
    listed = caller.get("/jobs/?q=finish_by:6h").json()["items"]
    assert [one["id"] for one in listed] == [job["id"]]
    assert caller.get("/jobs/?q=finish_by:2h").json()["items"] == []
    bad = problem_of(caller.get("/jobs/?q=finish_by:soon"), 400)
    assert "write it like finish_by:12h" in bad["errors"][0]["message"]

    url = f"/jobs/{job['id']}/change/"
    seen = caller.post(url, {"finish_by": "+9h", "dry_run": True}).json()
    assert seen["impact"]["finish"]["slack_s"] is None and seen["job"]["finish_by"] == by
    changed = caller.post(url, {"finish_by": "+9h", "finish_by_policy": "keep"}).json()["job"]
    assert changed["finish_by_policy"] == "keep" and changed["finish_by"] > by
    assert changed["spec"]["finish_by"] == changed["finish_by"]
    for body, field in (
        ({"finish_by": "tomorrow"}, "finish_by"),
        ({"finish_by": within(-1)}, "finish_by"),
    ):
        assert fields_of(problem_of(caller.post(url, body), 422)) == {field}
    odd = problem_of(caller.post(url, {"finish_by_policy": "maybe"}), 400)
    assert fields_of(odd) == {"finish_by_policy"}
    gone = caller.post(url, {"finish_by": "none"}).json()["job"]
    assert (gone["finish_by"], gone["finish_by_policy"], gone["finish"]) == (None, None, None)
    problem_of(program(carol).post(url, {"finish_by": "+9h"}), 404)


def test_a_dry_run_says_whether_it_is_in_time_and_what_helps(program, alice, cluster, spec):
    caller = program(alice)
    asked = {**spec, "time_limit": "8h", "finish_by": within(3)}
    quote = caller.post("/jobs/?dry_run=1", asked).json()
    assert quote["finish"]["outlook"] == "unlikely" and quote["finish"]["slack_s"] < 0
    assert "after" in quote["finish"]["sentence"]
    helps = quote["remedies"]
    assert helps[0]["fix"].startswith("limit:10") and "time limit of 2 h" in helps[0]["words"]
    assert helps[0]["cost_p50"] < quote["estimate"]["cost_p50"]
    problem_of(caller.post("/jobs/", {**asked, "finish_by_policy": "cancel"}), 422)
    assert not Job.objects.exists()


def test_a_moment_that_counts_from_now_is_compared_as_it_was_typed(program, alice, cluster, spec):
    caller = program(alice)

    def submit(hours: float, typed: str):
        sent = {**spec, "finish_by": within(hours)}
        more = {"HTTP_IDEMPOTENCY_KEY": "k-1", "HTTP_IDEMPOTENCY_FINISH_BY": typed}
        return caller.post("/jobs/", sent, **more)

    first, second = submit(5, "+5h"), submit(5.1, "+5h")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    problem_of(submit(5, "+6h"), 422, "idempotency_key_reused")
