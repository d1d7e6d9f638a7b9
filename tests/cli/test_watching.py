"""`trainyard watch` and `unwatch`: what is sent, and what is said of the answer."""

from __future__ import annotations

import json

import httpx
import pytest

from portal.cli.__main__ import run

pytestmark = pytest.mark.once
SHOWN = {
    "items": [{"person": "bob", "since": "2026-11-20T12:10:00Z"}],
    "is_watched": True,
    "next_cursor": None,
}
NOBODY = {"items": [], "is_watched": False, "next_cursor": None}
MINE = {
    "job": None, "set": 7, "name": "sweep", "owner": "alice", "project": "vision/digits",
    "since": "2026-11-20T12:10:00Z",
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "call", "answer", "said"),
    [
        ("watch 7", "POST /api/v1/jobs/7/watch/", SHOWN, "Job 7 is watched by bob."),
        ("watch 7 --set", "POST /api/v1/sets/7/watch/", SHOWN, "Array 7 is watched by bob."),
        ("watch 7 --who", "GET /api/v1/jobs/7/watch/", NOBODY, "Job 7 is watched by nobody."),
        ("unwatch 7", "DELETE /api/v1/jobs/7/watch/", None, "You no longer watch job 7."),
        ("unwatch 7 --set", "DELETE /api/v1/sets/7/watch/", None, "You no longer watch array 7."),
        (
            "watch", "GET /api/v1/watches/", {"items": [MINE], "next_cursor": None},
            "- 7 sweep alice vision/digits",
        ),
        ("watch", "GET /api/v1/watches/", NOBODY, "You watch nothing: trainyard watch JOB."),
    ],
)  # fmt: skip
def test_what_goes_and_what_is_said(portal_is, capsys, words, call, answer, said):
    def served(request: httpx.Request) -> httpx.Response:
        assert f"{request.method} {request.url.path}" == call
        return httpx.Response(204) if answer is None else httpx.Response(200, json=answer)

    portal_is(served)
    assert run(words.split()) == 0
    seen = capsys.readouterr()
    assert said in " ".join((seen.out + seen.err).split())


@pytest.mark.parametrize(
    ("word", "sent", "said"),
    [
        ("start,warn", ["start", "warn"], "You are told when it starts and near its limits, too."),
        ("none", [], "is watched by bob."),
    ],
)
def test_what_else_one_is_told_of(portal_is, capsys, word, sent, said):
    def served(request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content) == {"also": sent}
        return httpx.Response(200, json={**SHOWN, "also": sent})

    portal_is(served)
    assert run(["watch", "7", "--also", word]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_json_is_the_answer_and_an_option_needs_its_number(portal_is, capsys):
    portal_is(lambda _: httpx.Response(200, json=SHOWN))
    assert run(["watch", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == SHOWN
    assert run(["watch", "--also", "start"]) == 2
    assert run(["watch", "7", "--who", "--also", "start"]) == 2
    assert run(["watch", "--who"]) == 2
    assert "number of the job or array" in capsys.readouterr().err
