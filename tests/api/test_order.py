"""Arrays, dependencies and begin times over REST."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Role
from accounts.services import add_member
from scheduler.models import Job
from tests.api.conftest import fields_of, problem_of
from tests.scenes import ended, running, start, sync

pytestmark = pytest.mark.django_db


def test_an_array_is_submitted_read_rerun_and_cancelled(program, alice, cluster, spec):
    caller = program(alice)
    first = caller.post("/jobs/", {**spec, "array": "0-3%2"}).json()
    assert (first["array_index"], first["state"]) == (0, "queued")
    number = first["set"]
    shown = caller.get(f"/sets/{number}/").json()
    assert (shown["size"], shown["max_parallel"], shown["range"]) == (4, 2, "0-3")
    assert (shown["counts"]["queued"], shown["counts"]["held"]) == (2, 2)
    assert shown["actions"] == ["cancel"]
    tasks = caller.get(f"/jobs/?set={number}").json()["items"]
    assert [task["array_index"] for task in tasks] == [3, 2, 1, 0]
    assert tasks[0]["wait"]["reason"] == "array_limit"

    attempt = start(Job.objects.get(pk=first["id"]), cluster.node(1))
    sync(cluster.node(1), running(attempt))
    sync(cluster.node(1), ended(attempt, reason="exit_code", exit_code=3))
    made = caller.post(f"/sets/{number}/rerun/")
    assert made.status_code == 201, made.content
    assert (made.json()["range"], made.json()["rerun_of"]) == ("0", number)
    assert made["Location"] == f"/api/v1/sets/{made.json()['id']}/"
    problem_of(caller.post(f"/sets/{number}/rerun/"), 409)

    done = caller.post(f"/sets/{number}/cancel/").json()
    assert (done["tasks"], done["set"]["state"]) == (3, "failed")
    assert [one["id"] for one in caller.get("/sets/").json()["items"]] == [
        made.json()["id"], number]  # fmt: skip


def test_foreign_sets_and_jobs_look_missing(program, alice, carol, other_project, cluster, spec):
    mine = program(alice).post("/jobs/", {**spec, "array": "0-1"}).json()
    stranger = program(carol)
    for path in (f"/sets/{mine['set']}/", "/sets/987654/"):
        problem_of(stranger.get(path), 404)
    problem_of(stranger.post(f"/sets/{mine['set']}/cancel/"), 404)
    assert stranger.get("/sets/").json()["items"] == []
    for number in (mine["set"], 987654):
        gone = problem_of(stranger.get(f"/jobs/?set={number}"), 404)
        assert fields_of(gone) == {"set"}
    theirs = {**spec, "project": other_project.path}
    found = [
        problem_of(stranger.post("/jobs/", {**theirs, "depends_on": number}), 422)["errors"]
        for number in (mine["id"], 987654)
    ]
    assert found[0][0]["message"].replace(str(mine["id"]), "N") == found[1][0]["message"].replace(
        "987654", "N"
    )


def test_dependencies_and_begin_are_told_with_their_reason(program, alice, cluster, spec):
    caller = program(alice)
    first = caller.post("/jobs/", spec).json()
    second = caller.post("/jobs/", {**spec, "depends_on": f"afterany:{first['id']}"}).json()
    assert second["wait"]["sentence"] == f"Waits for job {first['id']} to end."
    problem_of(caller.post(f"/jobs/{second['id']}/release/"), 409)
    caller.post(f"/jobs/{first['id']}/cancel/")
    assert caller.get(f"/jobs/{second['id']}/").json()["state"] == "queued"
    doomed = problem_of(
        caller.post("/jobs/", {**spec, "depends_on": f"afterok:{first['id']}"}), 422
    )
    assert "cancelled already" in doomed["errors"][0]["message"]
    quote = caller.post("/jobs/?dry_run=1", {**spec, "array": "0-9"}).json()
    assert quote["tasks"] == 10


def test_a_circle_of_a_bulk_is_printed(program, alice, cluster, spec):
    jobs = [
        {**spec, "name": "a", "depends_on": "afterok:b"},
        {**spec, "name": "b", "depends_on": [{"kind": "afterany", "job": "a"}]},
    ]
    found = problem_of(program(alice).post("/jobs/bulk/", {"jobs": jobs}), 422)
    assert "a -> b -> a" in (words := found["errors"][0]["message"]) or "b -> a -> b" in words
    reply = program(alice).post("/jobs/bulk/", {"jobs": [jobs[0], {**spec, "name": "b"}]})
    assert reply.status_code == 201, reply.content
    waits, free = (Job.objects.get(pk=pk) for pk in reply.json()["ids"])
    assert (waits.state, free.state) == ("held", "queued")


def test_a_job_waits_for_an_array(program, alice, carol, other_project, cluster, spec):
    caller = program(alice)
    number = caller.post("/jobs/", {**spec, "array": "0-3"}).json()["set"]
    waits = caller.post("/jobs/", {**spec, "depends_on": {"kind": "afterok", "set": number}}).json()
    assert waits["spec"]["depends_on"] == [f"afterok:set={number}"]
    assert waits["wait"]["facts"]["sets"] == [number]
    task = Job.objects.get(job_set=number, array_index=2)
    attempt = start(task, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    sync(cluster.node(1), ended(attempt))
    why = caller.get(f"/jobs/{waits['id']}/why/").json()
    assert why["sentence"] == f"Waits for all 4 tasks of array {number} to succeed."
    assert why["jobs"] == []
    assert why["sets"] == [
        {"id": number, "kind": "afterok", "size": 4, "done": 1, "words": "1 of 4 tasks done"}
    ]
    caller.post(f"/sets/{number}/cancel/")
    why = caller.get(f"/jobs/{waits['id']}/why/").json()
    assert (why["state"], why["sets"]) == ("cancelled", [])
    assert f"all 4 tasks of array {number} to succeed, and task 0 has not" in why["sentence"]
    theirs = {**spec, "project": other_project.path}
    stranger, words = program(carol), []
    for one in (number, 987654):
        refused = stranger.post("/jobs/", {**theirs, "depends_on": {"set": one}})
        (error,) = problem_of(refused, 422)["errors"]
        assert error["field"] == "depends_on"
        words.append(error["message"].replace(str(one), "N"))
    assert words[0] == words[1]


def test_who_waits_for_a_job_or_an_array_is_told_of_those_one_may_see(
    program, alice, bob, other_project, root, cluster, spec
):
    caller = program(alice)
    first = caller.post("/jobs/", {**spec, "array": "0-1"}).json()
    assert first["waited_for_by"] == {"jobs": [], "sets": [], "has_more": False}
    number, reader = first["set"], program(bob)
    with CaptureQueriesContext(connection) as alone:
        assert reader.get(f"/jobs/{first['id']}/").json()["waited_for_by"]["jobs"] == []
    single = caller.post("/jobs/", {**spec, "depends_on": first["id"]}).json()["id"]
    tasks = {**spec, "array": "0-2", "depends_on": [first["id"], {"set": number}]}
    array = caller.post("/jobs/", tasks).json()["set"]
    add_member(actor=root, team=other_project.team, user=alice, role=Role.MEMBER)
    theirs = {**spec, "project": other_project.path}
    foreign = caller.post("/jobs/", {**theirs, "depends_on": first["id"]})
    assert foreign.status_code == 201, foreign.content
    both = {"jobs": [single], "sets": [array], "has_more": False}
    for path in (f"/jobs/{first['id']}/", f"/jobs/{first['id']}/why/"):
        assert reader.get(path).json()["waited_for_by"] == both
        assert foreign.json()["id"] in caller.get(path).json()["waited_for_by"]["jobs"]
    told = reader.get(f"/sets/{number}/").json()["waited_for_by"]
    assert told == {"jobs": [], "sets": [array], "has_more": False}
    caller.post("/jobs/bulk/", {"jobs": [{**spec, "depends_on": first["id"]}] * 10})
    with CaptureQueriesContext(connection) as seen:
        many = reader.get(f"/jobs/{first['id']}/").json()["waited_for_by"]
    assert len(many["jobs"]) + len(many["sets"]) == 10 and many["has_more"]
    assert len(seen) == len(alone)


def test_a_bulk_names_its_arrays(program, alice, cluster, spec):
    jobs = [
        {**spec, "name": "collect", "depends_on": [{"kind": "afterany", "job": "sweep"}]},
        {**spec, "name": "sweep", "array": "0-2"},
    ]
    reply = program(alice).post("/jobs/bulk/", {"jobs": jobs})
    assert reply.status_code == 201, reply.content
    ids, (none, number) = reply.json()["ids"], reply.json()["sets"]
    assert none is None and Job.objects.get(pk=ids[1]).job_set_id == number
    assert Job.objects.get(pk=ids[0]).spec["depends_on"] == [f"afterany:set={number}"]
    jobs = [{**spec, "name": name, "array": "0-9999"} for name in "ab"]
    refused = problem_of(program(alice).post("/jobs/bulk/", {"jobs": jobs}), 422)
    assert fields_of(refused) == {"jobs"}


@pytest.mark.parametrize("query", ["set=0", "set=x", "set=-1", "set=99999999999999999999"])
def test_odd_set_numbers_are_refused(program, alice, query):
    problem_of(program(alice).get(f"/jobs/?{query}"), 400, "bad_query")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("exclusive", True),
        ("licences", {"solver": 1}),
        ("constraints", ["a=b"]),
    ],
)
def test_what_is_asked_for_is_taken_or_refused(program, alice, cluster, spec, field, value):
    reply = program(alice).post("/jobs/", {**spec, field: value})
    assert reply.status_code == (422 if field == "licences" else 201)


def test_a_part_that_no_card_is_cut_into_is_refused_by_name(program, alice, cluster, spec):
    reply = program(alice).post("/jobs/", {**spec, "gpu_milli": "0.5"})
    assert fields_of(problem_of(reply, 422)) == {"gpu_milli"}


def test_a_waiting_job_asks_for_something_else(program, alice, carol, cluster, spec):
    caller = program(alice)
    first = caller.post("/jobs/", spec).json()
    url = f"/jobs/{first['id']}/change/"
    asked = {"gpus_per_node": 2, "nodes": "1..2"}
    told = caller.post(url, {**asked, "dry_run": True}).json()
    assert (told["job"]["version"], told["impact"]["may"]) == (first["version"], True)
    assert told["impact"]["most_cost"]["then"] != told["impact"]["most_cost"]["was"]
    for _ in range(2):
        done = caller.post(url, asked)
        assert done.status_code == 200, done.content
    job = Job.objects.get(pk=first["id"])
    assert (job.gpus_per_node, job.nodes_min, job.nodes) == (2, 1, 2)
    assert job.events.filter(kind="request_changed").count() == 1
    for bad, field, status in (
        ({"gpus_per_node": 60}, "gpus_per_node", 422),
        ({"nodes": "many"}, "nodes", 422),
        ({"nodes": 3}, "nodes", 422),
        ({"gpu_model": "Abacus"}, "gpu_model", 422),
        ({"pool": "nowhere"}, "pool", 422),
        ({"pool": ""}, "pool", 400),
        ({"gpus_per_node": True}, "gpus_per_node", 400),
    ):
        refused = problem_of(caller.post(url, bad), status)
        assert fields_of(refused) == {field}, bad
    problem_of(program(carol).post(url, asked), 404)
    start(job, cluster.node(1))
    problem_of(caller.post(url, {"gpus_per_node": 1}), 409)
    job.refresh_from_db()
    assert (job.state, job.gpus_per_node) == ("starting", 2)


def test_an_array_waits_task_for_task_or_says_which_indexes_do(program, alice, spec, cluster):
    caller = program(alice)
    first = caller.post("/jobs/", {**spec, "array": "0-2"}).json()["set"]
    wants = {**spec, "depends_on": f"aftercorr:set={first}"}
    quoted = caller.post("/jobs/?dry_run=1", {**wants, "array": "0-1"})
    assert quoted.status_code == 200 and quoted.json()["tasks"] == 2
    made = caller.post("/jobs/", {**wants, "array": "0-1"}).json()
    assert (made["state"], made["wait"]["reason"]) == ("held", "dependency_wait")
    assert made["spec"]["depends_on"] == [f"afterok:{first}_0"]
    (error,) = problem_of(caller.post("/jobs/", {**wants, "array": "2-3"}), 422)["errors"]
    assert error["field"] == "depends_on"
    assert f"array {first} has no task 3; it has 0-2" in error["message"]
    (error,) = problem_of(caller.post("/jobs/", wants), 422)["errors"]
    assert "give this job an array as well" in error["message"]
