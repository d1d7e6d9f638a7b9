"""One's own mail address from a terminal."""

from __future__ import annotations

import httpx
import pytest

from portal.cli.__main__ import run

pytestmark = pytest.mark.once
WAITING = {
    "email": "alice@new.example",
    "asked_at": "2026-11-28T08:00:00Z",
    "expires_at": "2026-11-28T09:00:00Z",
    "by_administrator": False,
}
ADDRESS = {"email": "alice@example.org", "decided_by": "", "waiting": WAITING}


@pytest.fixture
def sent(portal_is):
    """What was sent, as (method, path)."""
    found = []

    def answer(request: httpx.Request) -> httpx.Response:
        found.append((request.method, request.url.path.removeprefix("/api/v1")))
        is_over = request.method == "DELETE"
        return httpx.Response(200, json={**ADDRESS, "waiting": None if is_over else WAITING})

    portal_is(answer)
    return found


def test_shown_sent_again_and_kept(sent, capsys):
    assert run(["address"]) == 0
    shown = capsys.readouterr().out
    assert "alice@example.org" in shown and "good until 2026-11-28 09:00 UTC" in shown
    assert run(["address", "--again"]) == 0
    assert run(["address", "--cancel"]) == 0
    assert "Settings, Profile" in capsys.readouterr().out
    assert sent == [
        ("GET", "/me/address/"),
        ("POST", "/me/address/again/"),
        ("DELETE", "/me/address/"),
    ]


def test_both_at_once_are_refused_before_the_call(sent, capsys):
    assert run(["address", "--again", "--cancel"]) == 2
    assert "not both" in capsys.readouterr().err and not sent
