"""Submit, read, act: what a program does all day."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Job
from tests import scenes
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db


def test_a_job_is_submitted_read_and_cancelled(program, alice, cluster, spec):
    caller = program(alice)
    reply = caller.post("/jobs/", spec)
    assert reply.status_code == 201
    job = reply.json()
    assert reply["Location"] == f"/api/v1/jobs/{job['id']}/"
    assert job["state"] == "queued"
    assert job["wait"]["reason"] == "evaluating"
    assert job["position"] == 1
    assert set(job["actions"]) == {"cancel", "change", "hold", "clone"}
    assert job["spec"]["time_limit"] == "1h"

    assert caller.post(f"/jobs/{job['id']}/hold/").json()["state"] == "held"
    assert caller.post(f"/jobs/{job['id']}/release/").json()["state"] == "queued"
    ended = caller.post(f"/jobs/{job['id']}/cancel/").json()
    assert ended["state"] == "cancelled"
    assert ended["end"]["reason"] == "cancelled_by_user"
    again = caller.post(f"/jobs/{job['id']}/cancel/")
    assert again.status_code == 200, "cancelling an ended job is a no-op"

    why = caller.get(f"/jobs/{job['id']}/why/").json()
    assert why["sentence"] == "Cancelled by Alice."
    kinds = [event["kind"] for event in caller.get(f"/jobs/{job['id']}/events/").json()["items"]]
    assert kinds == ["submitted", "held", "released", "cancelled"]


def test_yaml_is_a_job_too(program, alice, cluster, project):
    text = f"name: from-yaml\nproject: {project.path}\nscript: |\n  echo hi\ntime_limit: 1:30:00\n"
    reply = program(alice).post("/jobs/", text.encode(), content_type="application/yaml")
    assert reply.status_code == 201, reply.content
    assert reply.json()["time_limit_s"] == 5400


def test_a_yaml_bomb_is_refused(program, alice, project):
    bomb = b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    reply = program(alice).post("/jobs/", bomb, content_type="application/yaml")
    assert "aliases" in problem_of(reply, 422)["errors"][0]["message"]


def test_a_dry_run_writes_nothing_and_tells_the_price(program, alice, cluster, spec):
    spec = {**spec, "gpus_per_node": 2, "time_limit": "2h"}
    reply = program(alice).post("/jobs/?dry_run=1", spec)
    assert reply.status_code == 200
    quote = reply.json()
    assert (quote["gpus"], quote["free_gpus"], quote["total_gpus"]) == (2, 4, 4)
    assert quote["worst_case_cost"] == "14.4000000000"
    assert not Job.objects.exists()


def test_the_same_key_and_body_is_the_same_job(program, alice, cluster, spec):
    caller = program(alice)
    first = caller.post("/jobs/", spec, HTTP_IDEMPOTENCY_KEY="k-1")
    second = caller.post("/jobs/", spec, HTTP_IDEMPOTENCY_KEY="k-1")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    other = caller.post("/jobs/", {**spec, "name": "other"}, HTTP_IDEMPOTENCY_KEY="k-1")
    problem_of(other, 422, "idempotency_key_reused")
    assert Job.objects.count() == 1


def test_a_begin_that_counts_from_now_is_compared_as_it_was_typed(program, alice, cluster, spec):
    caller, day = program(alice), timezone.now() + timedelta(days=1)

    def submit(minute: int, typed: str | None = "+2h"):
        begin = (day + timedelta(minutes=minute)).isoformat()
        more = {} if typed is None else {"HTTP_IDEMPOTENCY_BEGIN": typed}
        return caller.post("/jobs/", {**spec, "begin": begin}, HTTP_IDEMPOTENCY_KEY="k-2", **more)

    first, second = submit(0), submit(5)
    assert (first.status_code, second.status_code) == (201, 200)
    shown = second.json()
    assert (shown["id"], shown["spec"]["begin"]) == (
        first.json()["id"],
        first.json()["spec"]["begin"],
    )
    problem_of(submit(5, "+3h"), 422, "idempotency_key_reused")
    problem_of(submit(0, None), 422, "idempotency_key_reused")
    problem_of(submit(0, "+2 h"), 400, "bad_header")


def test_a_key_belongs_to_one_user(program, alice, bob, cluster, spec):
    mine = program(alice).post("/jobs/", spec, HTTP_IDEMPOTENCY_KEY="k-1")
    his = program(bob).post("/jobs/", spec, HTTP_IDEMPOTENCY_KEY="k-1")
    assert mine.json()["id"] != his.json()["id"]


@pytest.mark.parametrize("key", ["", "with space", "x" * 129, "\u00e9"])
def test_an_odd_key_is_refused(program, alice, cluster, spec, key):
    reply = program(alice).post("/jobs/", spec, HTTP_IDEMPOTENCY_KEY=key)
    assert fields_of(problem_of(reply, 400, "bad_header")) == {"Idempotency-Key"}


def test_bulk_takes_all_or_none(program, alice, cluster, spec):
    caller = program(alice)
    bad = caller.post("/jobs/bulk/", {"jobs": [spec, {**spec, "nodes": 0}, {"name": "x"}]})
    assert fields_of(problem_of(bad, 422)) == {"jobs[1].nodes", "jobs[2].project"}
    late = caller.post("/jobs/bulk/", {"jobs": [spec, {**spec, "pool": "nowhere"}]})
    assert fields_of(problem_of(late, 422)) == {"jobs[1].pool"}
    assert not Job.objects.exists()

    good = caller.post("/jobs/bulk/", {"jobs": [spec] * 3}, HTTP_IDEMPOTENCY_KEY="b")
    again = caller.post("/jobs/bulk/", {"jobs": [spec] * 3}, HTTP_IDEMPOTENCY_KEY="b")
    assert (good.status_code, again.status_code) == (201, 200)
    assert good.json() == again.json()
    assert Job.objects.count() == 3
    problem_of(caller.post("/jobs/bulk/", {"jobs": [spec] * 101}), 400)
    problem_of(caller.post("/jobs/bulk/", {"jobs": []}), 400)


def test_a_stale_version_is_refused_and_told(program, alice, cluster, spec):
    caller = program(alice)
    reply = caller.post("/jobs/", spec)
    pk, etag = reply.json()["id"], reply["ETag"]
    assert caller.post(f"/jobs/{pk}/hold/", HTTP_IF_MATCH=etag).status_code == 200
    stale = caller.post(f"/jobs/{pk}/cancel/", HTTP_IF_MATCH=etag)
    found = problem_of(stale, 412, "stale_version")
    assert found["facts"]["version"] == caller.get(f"/jobs/{pk}/").json()["version"]
    problem_of(caller.post(f"/jobs/{pk}/cancel/", HTTP_IF_MATCH="soon"), 400, "bad_header")


def test_a_clone_is_a_new_job_with_changes(program, alice, cluster, spec):
    caller = program(alice)
    pk = caller.post("/jobs/", spec).json()["id"]
    clone = caller.post(f"/jobs/{pk}/clone/", {"changes": {"time_limit": "4h"}})
    assert clone.status_code == 201
    assert clone.json()["cloned_from"] == pk
    assert clone.json()["time_limit_s"] == 4 * 3600
    bad = caller.post(f"/jobs/{pk}/clone/", {"changes": {"owner": "root"}})
    assert fields_of(problem_of(bad, 400)) == {"owner"}


def test_lists_page_by_cursor_and_filter(program, alice, carol, cluster, project):
    made = [scenes.submit(alice, project, name=f"job-{number}").pk for number in range(5)]
    caller = program(alice)
    seen, cursor = [], None
    for _ in range(3):
        page = caller.get("/jobs/?limit=2" + (f"&cursor={cursor}" if cursor else "")).json()
        seen += [job["id"] for job in page["items"]]
        cursor = page["next_cursor"]
    assert seen == made[::-1]
    assert cursor is None
    assert len(caller.get("/jobs/?text=job-3").json()["items"]) == 1
    assert not caller.get("/jobs/?text=%25").json()["items"], "a per cent sign is no wildcard"
    assert len(caller.get("/jobs/?state=queued,held&owner=me&pool=default").json()["items"]) == 5

    cursor = caller.get("/jobs/?limit=2").json()["next_cursor"]
    problem_of(program(carol).get(f"/jobs/?cursor={cursor}"), 400, "invalid_cursor")
    problem_of(caller.get(f"/jobs/?cursor={cursor}&owner=me"), 400, "invalid_cursor")
    problem_of(caller.get("/jobs/?cursor=zzz"), 400, "invalid_cursor")


def test_the_longest_tail_ends_with_the_unfinished_line(
    program, alice, cluster, project, monkeypatch
):
    job = scenes.submit(alice, project)
    attempt = scenes.start(job, cluster.node(1))
    scenes.sync(cluster.node(1), scenes.running(attempt), now=scenes.at(1))
    size = scenes.write_log(cluster.node(1), attempt, b"1\n2\n3\n4\nfi")
    scenes.sync(cluster.node(1), scenes.ended(attempt, log_size=size), now=scenes.at(9))
    for where in ("scheduler.selectors.printed.windows", "portal.api.v1.job_output"):
        monkeypatch.setattr(f"{where}.MAX_LINES", 3)
    caller = program(alice)
    problem_of(caller.get(f"/jobs/{job.pk}/log/?tail=4"), 400, "bad_query")
    for tail in (2, 3):
        found = caller.get(f"/jobs/{job.pk}/log/?tail={tail}").json()
        assert found["lines"] == [*["2", "3", "4"][-tail:], "fi"]


def test_a_run_job_shows_attempt_log_samples_and_cost(program, alice, cluster, project):
    job = scenes.submit(alice, project)
    attempt = scenes.start(job, cluster.node(1))
    scenes.sync(cluster.node(1), scenes.running(attempt), now=scenes.at(1))
    size = scenes.write_log(cluster.node(1), attempt, b"one\ntw", b"o\n\xffthree\n")
    caller = program(alice)

    log = caller.get(f"/jobs/{job.pk}/log/?from_line=2&count=5").json()
    assert log["lines"] == ["two", "\ufffdthree"]
    assert (log["next_line"], log["is_complete"], log["size"]) == (4, False, size)
    tail = caller.get(f"/jobs/{job.pk}/log/?tail=1").json()
    assert (tail["lines"], tail["offset"]) == (["\ufffdthree"], 8)
    raw = caller.get(f"/jobs/{job.pk}/log/raw/?offset=4")
    assert raw.content == b"two\n\xffthree\n"
    assert (raw["X-Log-Next"], raw["X-Log-Complete"]) == (str(size), "0")
    assert raw["Content-Type"] == "application/octet-stream"

    scenes.sync(cluster.node(1), scenes.ended(attempt, log_size=size), now=scenes.at(100))
    assert caller.get(f"/jobs/{job.pk}/log/raw/?offset={size}")["X-Log-Complete"] == "1"
    shown = caller.get(f"/jobs/{job.pk}/").json()
    assert (shown["state"], shown["end"]["exit_code"]) == ("succeeded", 0)
    ranks = caller.get(f"/jobs/{job.pk}/attempts/").json()["items"][0]["ranks"]
    assert ranks[0]["node"] == "n1"
    assert ranks[0]["devices"][0]["is_simulated"] is True
    cost = caller.get(f"/jobs/{job.pk}/cost/").json()
    assert cost["gpu_seconds"] == 100
    assert cost["cost"] == "0.1000000000"
    problem_of(caller.get(f"/jobs/{job.pk}/log/?attempt=2"), 404)
    problem_of(caller.get(f"/jobs/{job.pk}/log/?rank=1"), 404)
    later = scenes.submit(alice, project, nodes=2)
    raw = caller.get(f"/jobs/{later.pk}/log/raw/?rank=1")
    assert (raw["X-Log-Attempt"], raw["X-Log-Complete"]) == ("0", "0")
    problem_of(caller.get(f"/jobs/{later.pk}/log/raw/?rank=2"), 404)
    assert caller.get(f"/jobs/{job.pk}/samples/").json() == {"items": []}


def test_waiting_for_an_ended_job_answers_at_once(program, alice, cluster, project):
    caller = program(alice)
    job = scenes.submit(alice, project)
    assert caller.post(f"/jobs/{job.pk}/cancel/").status_code == 200
    assert caller.get(f"/jobs/{job.pk}/?wait=60").json()["is_final"] is True


def test_waiting_ends_when_time_is_up(program, alice, cluster, project):
    job = scenes.submit(alice, project)
    reply = program(alice).get(f"/jobs/{job.pk}/?wait=1")
    assert json.loads(reply.content)["is_final"] is False
    problem_of(program(alice).get(f"/jobs/{job.pk}/?wait=61"), 400, "bad_query")


def test_a_submit_asks_nothing_about_tries_it_cannot_have_had(
    program, alice, project, cluster, django_assert_max_num_queries
):
    """Who it is, where it goes, what holds there (14), the rows (2), and its place in the line."""
    api = program(alice)
    spec = {"name": "a", "project": project.path, "command": ["true"]}
    assert api.post("/jobs/", spec).status_code == 201
    with django_assert_max_num_queries(17):  # the savepoint of a test's transaction among them
        reply = api.post("/jobs/", spec)
    assert reply.status_code == 201
    assert (reply.json()["attempt"], reply.json()["triage"], reply.json()["checkpoint"]) == (
        None,
        None,
        None,
    )
