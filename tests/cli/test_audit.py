"""`trainyard audit` against the real servers."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.once]


def test_an_administrator_reads_who_changed_what_and_a_member_does_not(terminal_of):
    admin = terminal_of("admin")
    # Other tests of these servers make teams as well; this one came with the demonstration.
    events = admin.json("audit", "--action", "team.create", "--object", "vision", "-n", "1")
    assert len(events) == 1
    assert {event["action"] for event in events} == {"team.create"}
    assert all(event["request_id"].startswith("command:") for event in events)
    out, _ = admin.run("audit", "--object", "vision", "--action", "member")
    assert "member.add" in out
    assert "No event matches" in "".join(admin.run("audit", "--actor", "nobody-there"))
    _, err = admin.run("audit", "--from", "yesterday", code=2)
    assert "2026-11-20" in err
    terminal_of("alice").run("audit", code=4)
