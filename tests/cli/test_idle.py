"""`trainyard idle` and `keep`: what is sent, and what is said of the answer."""

from __future__ import annotations

import json

import httpx
import pytest

from portal.cli.__main__ import run

pytestmark = pytest.mark.once
OFF = {"owner": "project vision/digits", "is_on": False, "also": []}
ON = {
    "owner": "pool default",
    "is_on": True,
    "act": "pause",
    "below_percent": 5,
    "first_minutes": 30,
    "warn_minutes": 60,
    "act_minutes": 30,
    "keep_hours": 24,
}
TRIED = {
    "job": 7, "name": "sleepy", "owner": "alice", "attempt": 1, "gpus": 2, "freed_gpu_s": 7200,
    "idle_since": "2026-11-20T12:10:00Z", "warned_at": "2026-11-20T13:10:00Z", "act_at": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "call", "sent", "answer", "said"),
    [
        (
            "idle show vision/digits", "GET /projects/vision/digits/idle-rule/", None,
            {**OFF, "also": [ON]}, "Pool default: warned when every GPU stayed below 5 %",
        ),
        (
            "idle set default --then stop --after 20 --warn 45", "POST /pools/default/idle-rule/",
            {"act": "stop", "act_minutes": 20, "warn_minutes": 45, "below_percent": 5,
             "first_minutes": 30, "keep_hours": 24},
            {**ON, "also": []}, "paused 30 min later; kept by its owner for 24 h at most.",
        ),
        (
            "idle try vision/digits --then tell", "POST /projects/vision/digits/idle-rule/trial/",
            {"act": "tell", "act_minutes": None, "warn_minutes": 60, "below_percent": 5,
             "first_minutes": 30, "keep_hours": 24, "days": 7},
            {"attempts": 9, "days": 7, "warned": 1, "acted": 0, "freed_gpu_s": 7200,
             "rows": [TRIED]},
            "Of 9 attempts in 7 days it would have warned 1",
        ),
        (
            "idle off default", "DELETE /pools/default/idle-rule/", None, OFF,
            "no rule; nobody is warned",
        ),
        (
            "keep 7 --hours 2 --reason reads", "POST /jobs/7/keep/",
            {"hours": 2, "reason": "reads"},
            {"idle": {"kept": {"until": "2026-11-20T14:00:00Z"}}},
            "Job 7 is kept until 2026-11-20 14:00 UTC",
        ),
    ],
)  # fmt: skip
def test_what_goes_and_what_is_said(portal_is, capsys, words, call, sent, answer, said):
    def served(request: httpx.Request) -> httpx.Response:
        assert f"{request.method} {request.url.path}".endswith(call.partition(" ")[2])
        assert request.method == call.partition(" ")[0]
        assert (json.loads(request.content) if request.content else None) == sent
        return httpx.Response(200, json=answer)

    portal_is(served)
    assert run(words.split()) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_project_without_its_team_is_no_owner(portal_is, capsys):
    portal_is(lambda _: httpx.Response(500))
    assert run(["idle", "show", "vision/"]) == 2
    assert "write a project as team/project" in capsys.readouterr().err
