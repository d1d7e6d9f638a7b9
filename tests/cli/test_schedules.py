"""Schedules from a terminal."""

from __future__ import annotations

import json

import httpx
import pytest

from portal.cli.__main__ import run

pytestmark = pytest.mark.once
ONE = {
    "id": 7,
    "name": "Nightly",
    "project": "vision/digits",
    "owner": "alice",
    "state": "active",
    "rule": "@daily",
    "zone": "Europe/Berlin",
    "next_due_at": "2026-11-28T23:00:00Z",
    "last_due_at": "2026-11-27T23:00:00Z",
    "last_outcome": "submitted",
    "last_job": 12,
    "last_job_state": "failed",
    "pause_reason": "",
    "next_times": ["2026-11-28T23:00:00Z"],
    "a_month": 30,
    "month_cost": "12.5000000000",
    "overlap": "skip",
    "spec": {"name": "eval", "command": ["true"]},
}
RUN = {
    "due_at": "2026-11-27T23:00:00Z",
    "by_hand": False,
    "outcome": "refused",
    "said": "project: vision/digits is archived; choose another",
    "job": None,
    "job_state": None,
    "cost": None,
}

ACT = {
    "at": "2026-11-27T23:00:00Z",
    "act": "changed",
    "actor": None,
    "on_behalf_of": "lena",
    "changes": [{"field": "rule", "before": "@daily", "after": "@hourly"}],
    "reason": "",
}
RESUMED = {
    **ACT,
    "act": "resumed",
    "changes": [
        {"field": "paused", "before": "yes", "after": "no"},
        {"field": "times_skipped", "before": None, "after": "4"},
    ],
}


@pytest.fixture
def sent(portal_is):
    """What was sent, as (method, path with query, body)."""
    found = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().removeprefix("/api/v1")
        body = json.loads(request.content) if request.content else None
        found.append((request.method, path, body))
        if path.startswith("/schedules/7/runs/"):
            return httpx.Response(200, json={"items": [RUN], "next_cursor": None})
        if path.startswith("/schedules/7/history/"):
            return httpx.Response(200, json={"items": [RESUMED, ACT], "next_cursor": None})
        if path == "/schedules/7/run/":
            return httpx.Response(201, json={**RUN, "job": 13, "job_state": "queued"})
        is_list = path.startswith("/schedules/?")
        listed = {"items": [ONE], "next_cursor": None}
        return httpx.Response(200, json=listed if is_list else ONE)

    portal_is(answer)
    return found


def test_made_from_a_file_or_a_command(sent, capsys, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("name: eval\nproject: vision/digits\ncommand: python eval.py\n")
    words = ["schedule", "create", str(file), "--every", "30 2 * * mon-fri"]
    assert run([*words, "--zone", "Europe/Berlin", "--gpus", "2"]) == 0
    assert "Schedule 7 'Nightly', @daily: next 2026-11-28 23:00 UTC." in capsys.readouterr().out
    words = ["schedule", "create", "--every", "@daily", "-p", "vision/digits", "--pause-after", "0"]
    assert run([*words, "--overlap", "queue", "--", "python", "eval.py"]) == 0
    first, second = (body for _, _, body in sent)
    assert (first["name"], first["rule"]) == ("eval", "30 2 * * mon-fri")
    assert first["zone"] == "Europe/Berlin"
    assert first["spec"]["gpus_per_node"] == 2
    assert (second["overlap"], second["pause_after"], second["name"]) == ("queue", 0, "eval.py")
    assert run(["schedule", "create", "--every", "@daily"]) != 0
    assert "nothing to run" in capsys.readouterr().err


def test_listed_shown_and_acted_on(sent, capsys):
    assert run(["schedule"]) == 0
    listed = capsys.readouterr().out
    assert "Nightly" in listed and "#12 failed" in listed
    assert run(["schedule", "show", "7"]) == 0
    assert "# about 12.50 a month" in capsys.readouterr().out
    assert run(["schedule", "runs", "7"]) == 0
    assert "is archived" in capsys.readouterr().out
    assert run(["schedule", "run", "7"]) == 0
    assert run(["schedule", "pause", "7", "--reason", "too dear"]) == 0
    assert run(["schedule", "resume", "7"]) == 0
    assert run(["schedule", "change", "7", "--every", "@hourly"]) == 0
    assert run(["schedule", "delete", "7", "--reason", "not needed & old"]) == 0
    assert sent[-5:] == [
        ("POST", "/schedules/7/run/", {}),
        ("POST", "/schedules/7/pause/", {"reason": "too dear"}),
        ("POST", "/schedules/7/resume/", {}),
        ("POST", "/schedules/7/", {"rule": "@hourly"}),
        ("POST", "/schedules/7/delete/", {"reason": "not needed & old"}),
    ]
    assert run(["schedule", "change", "7"]) != 0
    assert run(["schedule", "take-over", "7", "--reason", "she has left"]) == 0
    assert sent[-1] == ("POST", "/schedules/7/take-over/", {"reason": "she has left"})
    capsys.readouterr()
    assert run(["schedule", "history", "7"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "changed itself for lena rule: @daily -> @hourly -" in told
    assert "paused: yes -> no, times_skipped: - -> 4" in told
