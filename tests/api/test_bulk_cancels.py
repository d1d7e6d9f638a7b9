"""`/bulk-cancels/` and the cancel of an array that takes two people, over REST."""

from __future__ import annotations

import pytest

from tests import scenes
from tests.api.conftest import problem_of
from tests.scenes import submit

pytestmark = pytest.mark.django_db
WHY = {"reason": "writes to the wrong bucket"}


@pytest.fixture
def array(cluster, alice, project):
    return submit(alice, project, array="0-100").job_set


def test_an_array_of_somebody_else_takes_two(array, program, lead, operator, alice):
    first, second = program(lead), program(operator)
    cancel = f"/sets/{array.pk}/cancel/"
    found = problem_of(first.post(cancel), 409, "second_person_needed")
    assert "Say why" in found["detail"]
    found = problem_of(first.post(cancel, {"reason": " "}), 422)
    assert found["errors"][0]["field"] == "reason"
    reply = first.post(cancel, WHY)
    made = reply.json()
    assert (reply.status_code, reply["Location"]) == (202, f"/api/v1/bulk-cancels/{made['id']}/")
    assert (made["jobs"], made["set"], made["outcome"]) == (101, array.pk, "waiting")
    assert (made["actions"], made["proposed_by"]) == (["withdraw"], "lead")
    assert array.tasks.filter(state="queued").count() == 101
    assert first.post(cancel, WHY).json()["id"] == made["id"]
    found = problem_of(second.post(cancel, WHY), 409, "already_proposed")
    here = f"/bulk-cancels/{made['id']}/"
    assert second.get(here).json()["actions"] == ["agree", "refuse"]
    problem_of(first.post(f"{here}agree/"), 403)
    done = second.post(f"{here}agree/").json()
    assert (done["outcome"], done["ended"], done["left_out"]) == ("agreed", 101, 0)
    assert done["decided_by"] == "operator" and done["actions"] == []
    problem_of(first.post(f"{here}withdraw/"), 409, "decided")
    assert first.post(cancel).json()["tasks"] == 0


def test_ones_own_array_needs_no_reason(array, program, alice):
    reply = program(alice).post(f"/sets/{array.pk}/cancel/")
    assert (reply.status_code, reply.json()["tasks"]) == (200, 101)


def test_jobs_named_one_by_one(cluster, program, alice, lead, operator, project):
    jobs = [submit(alice, project).pk for _ in range(101)]
    first, second = program(lead), program(operator)
    problem_of(first.post("/bulk-cancels/", {"jobs": jobs[:100], **WHY}), 409, "one_is_enough")
    made = first.post("/bulk-cancels/", {"jobs": jobs, **WHY})
    assert made.status_code == 202
    assert (made.json()["what"], made.json()["set"]) == ("101 jobs", None)
    here = f"/bulk-cancels/{made.json()['id']}/"
    problem_of(second.post(f"{here}refuse/", {"reason": ""}), 422)
    refused = second.post(f"{here}refuse/", {"reason": "Needed."}).json()
    assert (refused["outcome"], refused["said"]) == ("refused", "Needed.")
    anew = first.post("/bulk-cancels/", {"jobs": jobs, **WHY}).json()
    assert anew["id"] != refused["id"]
    back = first.post(f"/bulk-cancels/{anew['id']}/withdraw/").json()
    assert back["outcome"] == "withdrawn"
    listed = second.get("/bulk-cancels/").json()["items"]
    assert [one["id"] for one in listed] == [anew["id"], refused["id"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"jobs": [], **WHY}, "jobs"),
        ({"jobs": [0], **WHY}, "jobs"),
        ({"jobs": "all", **WHY}, "jobs"),
        ({"jobs": [1]}, "reason"),
        ({**WHY}, "jobs"),
        ({"jobs": [1], "set": 3, **WHY}, "set"),
    ],
)
def test_bad_input_is_named(program, lead, body, field):
    found = problem_of(program(lead).post("/bulk-cancels/", body), 400)
    assert found["errors"][0]["field"].startswith(field)


def test_for_others_there_is_none(array, program, lead, bob, carol, finance):
    made = program(lead).post(f"/sets/{array.pk}/cancel/", WHY).json()
    for one in (bob, carol, finance):
        caller = program(one)
        assert caller.get("/bulk-cancels/").json()["items"] == []
        problem_of(caller.get(f"/bulk-cancels/{made['id']}/"), 404)
        for act in ("agree", "withdraw"):
            problem_of(caller.post(f"/bulk-cancels/{made['id']}/{act}/"), 404)
        problem_of(caller.post(f"/bulk-cancels/{made['id']}/refuse/", {"reason": "x"}), 404)
    problem_of(program(lead).get("/bulk-cancels/999999/"), 404)
    problem_of(program(lead, ["jobs:read"]).post(f"/bulk-cancels/{made['id']}/withdraw/"), 403)


def test_somebody_who_leaves_with_many_jobs(array, program, root, operator, alice):
    body = {"reason": "left", "jobs": "cancel"}
    went = program(root).post("/users/alice/deactivate/", body).json()
    assert (went["person"]["is_active"], went["cancelled"]) == (False, 0)
    caller = program(operator)
    assert caller.get(f"/bulk-cancels/{went['bulk_cancel']}/").json()["person"] == "alice"
    assert caller.post(f"/bulk-cancels/{went['bulk_cancel']}/agree/").json()["ended"] == 101


def test_single_cancels_say_where_to_go_on(cluster, program, alice, lead, project):
    caller = program(lead)
    some = scenes.submit(alice, project, array="0-99").job_set
    assert caller.post(f"/sets/{some.pk}/cancel/", WHY).status_code == 200
    job = submit(alice, project)
    problem_of(caller.post(f"/jobs/{job.pk}/cancel/"), 409, "second_person_needed")
    assert caller.post("/bulk-cancels/", {"jobs": [job.pk], **WHY}).status_code == 202
