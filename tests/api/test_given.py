"""A refusal says which field, what was given and what would be right, whatever it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from portal.forms.labels import with_given
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db
YEAR = {"valid_from": "2026-11-01T00:00:00Z", "valid_until": "2999-12-01T00:00:00Z"}
SOON = datetime.now(UTC) + timedelta(hours=1)
SPAN = {"from_at": SOON.isoformat(), "until_at": (SOON + timedelta(hours=2)).isoformat()}
WISH = {"owner": "vision", "kind": "maximum", "justification": "for the paper of next spring"}
WRONG = (
    ("/teams/", {"name": "   "}, "name", "'   '"),
    ("/rules/quotas/", {"owner": "vision", "maximum": -7}, "maximum", "-7"),
    ("/rules/quotas/", {"owner": "vision", "pool": "ghost"}, "pool", "'ghost'"),
    ("/rules/budgets/", {"owner": "vision", "gpu_hours": -1, **YEAR}, "gpu_hours", "-1"),
    ("/rules/caps/", {"owner": "vision", "max_running": -3}, "max_running", "-3"),
    ("/rules/policies/", {"name": "luck"}, "name", "'luck'"),
    ("/rules/headroom/", {"pool": "default", "gpus": 9000}, "gpus", "9000"),
    ("/bookings/", {"owner": "vision", "pool": "default", "nodes": 0, **SPAN}, "nodes", "0"),
    ("/windows/", {"pool": "ghost", **SPAN}, "pool", "'ghost'"),
    ("/windows/", {"pool": "default", "nodes": ["n1"], **SPAN, "until_at": "later"},
     "until_at", "'later'"),
    ("/webhooks/", {"url": "https://chat.example.org/h", "kinds": ["rain"]}, "kinds", "'rain'"),
    ("/views/", {"table": "chairs", "name": "x", "query": ""}, "table", "chairs"),
    ("/requests/", {**WISH, "amount": 0, **YEAR}, "amount", "0"),
    ("/simulator/", {"pool": "default", "hours": 0, "changes": ["nodes=2"]}, "hours", "0"),
    ("/licences/", {"name": "matlab", "total": -2}, "total", "-2"),
    ("/bulk-cancels/", {"jobs": [7, 0], "reason": "wrong bucket"}, "jobs", "Given: 0."),
    ("/bulk-cancels/", {"jobs": [7], "reason": 12}, "reason", "Given: 12."),
    ("/nodes/tokens/", {"pool": "default", "minutes": 0}, "minutes", "0"),
)  # fmt: skip


@pytest.mark.parametrize(("path", "body", "field", "text"), WRONG)
def test_it_says_what_was_given(cluster, program, root, team, path, body, field, text):
    reply = program(root).post(path, body)
    assert reply.status_code in (400, 422)
    found = reply.json()
    (said,) = [one["message"] for one in found["errors"] if one["field"].startswith(field)]
    assert text in said and text in found["detail"], found


def test_of_a_query_too(program, alice):
    found = problem_of(program(alice).get("/jobs/?limit=many"), 400)
    assert "many" in found["errors"][0]["message"]


def test_of_names_of_nothing(cluster, program, alice):
    for field, text in (("pool", "defalt"), ("team", "visoin"), ("set", "77"), ("schedule", "7")):
        found = problem_of(program(alice).get(f"/jobs/?{field}={text}"), 404)
        assert found["errors"][0]["field"] == field
        assert f"Given: '{text}'." in found["errors"][0]["message"], found


def test_fields_that_are_none_are_named_without_their_values(program, alice):
    caller = program(alice)
    for answer in (caller.get("/jobs/?pas=hunter2"), caller.post("/sets/", {"pas": "hunter2"})):
        assert 400 <= answer.status_code < 500 and b"hunter2" not in answer.content


def test_what_may_be_secret_is_not_repeated(program, root):
    caller = program(root)
    path = "https://user:hunter2@chat.example.org/hook/hunter2"
    assert b"hunter2" not in caller.post("/webhooks/", {"url": path}).content
    assert b"hunter2" not in caller.post("/secrets/", {"name": "UP", "value": "hunter2"}).content


@pytest.mark.parametrize(
    ("message", "field", "sent", "said"),
    [
        ("Give 1 to 5.", "n", {"n": 9}, "Give 1 to 5. Given: 9."),
        ("Give 1 to 5.", "n", {"n": "x" * 99}, f"Give 1 to 5. Given: '{'x' * 40}'."),
        ("is no size", "a.b[1].c", {"a": {"b": [{}, {"c": "z"}]}}, "is no size. Given: 'z'."),
        ("9 is too many.", "n", {"n": 9}, "9 is too many."),
        ("Give 1 to 95.", "n", {"n": 9.5}, "Give 1 to 95. Given: 9.5."),
        ("This field is required.", "n", {}, "This field is required."),
        ("Wrong.", "api_token", {"api_token": "hunter2"}, "Wrong."),
        ("Wrong.", "", {"": "x"}, "Wrong."),
        ("Wrong.", "n", {"n": {"a": 1}}, "Wrong."),
    ],
)
def test_the_words(message, field, sent, said):
    assert with_given(message, field, sent) == said
