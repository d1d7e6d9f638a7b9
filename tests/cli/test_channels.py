"""Chats and hours from a terminal: an address never on a command line, what is left out stays."""

from __future__ import annotations

import json

import httpx
import pytest

from portal.cli.__main__ import run

pytestmark = pytest.mark.once
CHANNEL = {
    "id": 4,
    "name": "mine",
    "host": "hooks.slack.com",
    "team": "vision",
    "kinds": [],
    "paused_at": None,
    "sent": 2,
    "waiting": 0,
    "lost": 1,
    "last_at": None,
}
HOURS = {
    "mail": "daily",
    "digest_at": "08:00",
    "zone": "Europe/Berlin",
    "quiet_from": "22:00",
    "quiet_until": "07:00",
    "urgent": ["budget"],
}


@pytest.fixture
def sent(portal_is):
    """What was sent, as (method, path, body); the portal knows one channel and one person."""
    found = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        found.append((request.method, path, json.loads(request.content or b"null")))
        if request.method == "DELETE":
            return httpx.Response(204)
        if path.endswith("/hours/"):
            return httpx.Response(200, json=HOURS)
        if path.endswith("/test/"):
            said = {"is_there": False, "status": 404, "said": "it answered 404: make a new one."}
            return httpx.Response(200, json=said)
        if request.method == "GET":
            return httpx.Response(200, json={"items": [CHANNEL], "next_cursor": None})
        return httpx.Response(200, json=CHANNEL)

    portal_is(answer)
    return found


def test_an_address_comes_from_a_file(sent, tmp_path, capsys):
    (tmp_path / "address").write_text("https://hooks.slack.com/services/x\n")
    words = ["channels", "add", "slack", "--file", str(tmp_path / "address"), "--team", "vision"]
    assert run([*words, "--kind", "job_failed"]) == 0
    ((_, path, body),) = sent
    assert path == "/channels/" and body["url"] == "https://hooks.slack.com/services/x"
    assert (body["team"], body["kinds"]) == ("vision", ["job_failed"])
    out = capsys.readouterr().out
    assert "channels test 4" in out and "services" not in out


def test_one_is_listed_changed_tried_and_removed(sent, capsys):
    assert run(["channels"]) == 0
    out = capsys.readouterr().out
    assert "team vision" in out and "everything" in out
    assert run(["channels", "change", "4", "--pause", "--name", "x"]) == 0
    assert run(["channels", "change", "4"]) != 0
    assert run(["channels", "test", "4"]) != 0
    assert "answered 404" in capsys.readouterr().err
    assert run(["channels", "remove", "4", "--json"]) == 0
    assert [one[:2] for one in sent[1:]] == [
        ("POST", "/channels/4/"),
        ("POST", "/channels/4/test/"),
        ("DELETE", "/channels/4/"),
    ]
    assert sent[1][2] == {"is_paused": True, "name": "x"}


def test_hours_are_shown_and_chosen(sent, capsys):
    assert run(["hours"]) == 0
    out = capsys.readouterr().out
    assert "every day at 08:00" in out and "from 22:00 to 07:00" in out
    assert "Europe/Berlin" in out and "Urgent: budget" in out
    assert run(["hours", "--quiet", "23:00-06:30", "--mail", "weekly", "--urgent", "none"]) == 0
    assert run(["hours", "--quiet", "never"]) == 0
    assert run(["hours", "--quiet", "at night"]) != 0
    assert "22:00-07:00, or never" in capsys.readouterr().err
    bodies = [body for method, _, body in sent if method == "POST"]
    assert bodies == [
        {"mail": "weekly", "quiet_from": "23:00", "quiet_until": "06:30", "urgent": []},
        {"quiet_from": None, "quiet_until": None},
    ]
