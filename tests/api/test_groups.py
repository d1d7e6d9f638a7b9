"""Groups of which the newest counts, over REST."""

from __future__ import annotations

import pytest

from scheduler.models import Job
from tests.api.conftest import fields_of, problem_of
from tests.scenes import start

pytestmark = pytest.mark.django_db


def test_the_newest_is_submitted_quoted_read_and_found(program, alice, carol, cluster, spec):
    caller, asked = program(alice), {**spec, "group": "eval/main"}
    first = caller.post("/jobs/", asked).json()
    assert (first["group"], first["state"]) == ("eval/main", "queued")
    quote = caller.post("/jobs/?dry_run=1", asked).json()
    assert quote["group"] == f"As the newest of its group eval/main it cancels job {first['id']}."
    assert caller.post("/jobs/quote/", spec).json()["group"] == ""
    second = caller.post("/jobs/", {**asked, "group_policy": "stop"}).json()
    assert second["spec"]["group_policy"] == "stop"
    over = caller.get(f"/jobs/{first['id']}/").json()
    assert over["state"] == "cancelled" and over["end"]["reason"] == "superseded"
    words = f"Cancelled for job {second['id']}, which is newer in its group eval/main."
    assert over["end"]["sentence"] == words
    caller.post("/jobs/", {**spec, "group": "other"})
    both = [second["id"], first["id"]]
    for query in ("group=eval/main", "q=group:eval/main"):
        assert [one["id"] for one in caller.get(f"/jobs/?{query}").json()["items"]] == both
    assert program(carol).get("/jobs/?group=eval/main").json()["items"] == []
    assert caller.post(f"/jobs/{second['id']}/clone/", {}).json()["group"] == "eval/main"
    assert Job.objects.get(pk=second["id"]).end_reason == "superseded"


@pytest.mark.parametrize(
    ("more", "field"),
    [({"group": "a b"}, "group"), ({"group_policy": "stop"}, "group_policy")],
)
def test_what_is_wrong_is_named_by_field(program, alice, cluster, spec, more, field):
    assert fields_of(problem_of(program(alice).post("/jobs/", {**spec, **more}), 422)) == {field}


def test_a_name_that_is_none_is_refused(program, alice):
    found = problem_of(program(alice).get("/jobs/?group=a%20b"), 400)
    assert fields_of(found) == {"group"}
    found = problem_of(program(alice).get("/jobs/?q=group:a%26b"), 400)
    assert "write it like group:eval/main" in found["errors"][0]["message"]


def test_of_a_bulk_the_last_is_left(program, alice, cluster, spec):
    sent = [{**spec, "name": name, "group": "eval"} for name in ("a", "b")]
    ids = program(alice).post("/jobs/bulk/", {"jobs": sent}).json()["ids"]
    assert [Job.objects.get(pk=pk).state for pk in ids] == ["cancelled", "queued"]


def test_an_array_says_its_group(program, alice, cluster, spec):
    caller = program(alice)
    for group in ("eval", ""):
        job = caller.post("/jobs/", {**spec, "array": "0-1", "group": group}).json()
        assert caller.get(f"/sets/{job['set']}/").json()["group"] == (group or None)
        assert job["group"] == (group or None)


def test_why_it_waits_names_job_and_group(program, alice, cluster, spec):
    caller, asked = program(alice), {**spec, "group": "eval"}
    first = caller.post("/jobs/", asked).json()["id"]
    start(Job.objects.get(pk=first), cluster.node(1))
    second = caller.post("/jobs/", asked).json()["id"]
    why = caller.get(f"/jobs/{second}/why/").json()
    assert why["sentence"] == f"Waits for job {first} of its group eval to end."
    assert (why["wait"]["facts"]["group"], why["jobs"][0]["id"]) == ("eval", first)
    wrong = {**asked, "group_policy": "stop", "depends_on": [f"afterok:{first}"]}
    assert fields_of(problem_of(caller.post("/jobs/", wrong), 422)) == {"depends_on"}
