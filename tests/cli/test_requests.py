"""`trainyard requests`, `teams` and `deputies` against the real servers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import httpx
import pytest

pytestmark = [pytest.mark.stack, pytest.mark.once]
WHY = "The long-context phase begins on Monday."


def test_quota_is_asked_for_and_decided_on(terminal_of):
    alice, lead, admin = terminal_of("alice"), terminal_of("lena"), terminal_of("admin")
    made = alice.json("requests", "ask", "vision/digits", "1", "--why", WHY, "--draft")
    number = str(made["id"])
    assert (made["state"], made["kind"]) == ("draft", "guaranteed")
    out, _ = alice.run("requests")
    assert number in out and "draft" in out
    sent = alice.json("requests", "submit", number)
    assert (sent["state"], sent["route"]) == ("lead_review", ["lead", "admin"])
    _, err = alice.run("requests", "decide", number, "approve", code=4)
    assert "another person" in err or "waits for" in err
    assert made["id"] in [one["id"] for one in lead.json("requests", "--show", "inbox")]
    out, _ = lead.run("requests", "assign", number, "lena")
    assert "assigned to lena" in out
    alice.run("requests", "assign", number, "lena", code=4)
    out, _ = alice.run("requests", "whatif", number)
    assert "oversubscribed by" in out or "ask again" in out
    asked = lead.json("requests", "decide", number, "ask", "--comment", "For how long?")
    assert asked["state"] == "needs_info"
    alice.run("requests", "answer", number, "A month.")
    # The version that was seen first is stale by now.
    stale = ("requests", "decide", number, "approve", "--version", str(made["version"]))
    lead.run(*stale, code=5)
    lead.run("requests", "decide", number, "approve")
    out, _ = admin.run(
        "requests", "decide", number, "deny", "--reason", "no_capacity", "--comment", "Next month."
    )
    assert "denied" in out
    out, _ = alice.run("requests", "show", number)
    assert WHY in out and "deny by admin" in out and "Next month." in out
    _, err = alice.run("requests", "renew", number, code=5)
    assert "no grant" in err
    admin.run("requests", "renew", number, code=4)


def test_what_nobody_limits_need_not_be_asked_for(terminal_of):
    alice = terminal_of("alice")
    for kind, words in (("walltime", "longest time"), ("money", "No budget"), ("x", "Choose one")):
        ask = ("requests", "ask", "vision/digits", "1", "--why", WHY, "--kind", kind)
        _, err = alice.run(*ask, code=2)
        assert words in err
    alice.run("requests", "show", "999999", code=3)
    ask = ("requests", "ask", "vision/digits", "1", "--why", WHY, "--kind", "reservation")
    for more, words in (
        ((), "how many hours"),
        (("--hours", "2"), "which pool"),
        (("--hours", "2", "--from", "soon"), "is no time"),
        (("--hours", "2", "--from", "2020-01-01T08:00Z"), "has passed"),
    ):
        _, err = alice.run(*ask, *more, code=2)
        assert words in " ".join(err.split())


def test_who_decides_is_laid_down_and_ended(terminal_of):
    admin, alice = terminal_of("admin"), terminal_of("alice")
    out, _ = admin.run("requests", "rules")
    assert "as usual" in out
    alice.run("requests", "rules", code=4)
    alice.run("requests", "rules", "set", "budget", "--always-admin", code=4)
    admin.run("requests", "rules", "set", "nothing", "--always-admin", code=2)
    admin.run("requests", "rules", "set", "budget", "--money-limit", "1,5", code=2)
    made = admin.json("requests", "rules", "set", "budget", "--always-admin", "--hours", "24")
    assert (made["kind"], made["always_admin"], made["sla_hours"]) == ("budget", True, 24)
    try:
        out, _ = admin.run("requests", "rules")
        told = {one["kind"]: one for one in admin.json("requests", "rules")["items"]}
        assert told["budget"]["rule"] == "own" and f"rule {told['budget']['policy']}" in out
    finally:
        out, _ = admin.run("requests", "rules", "end", "budget")
    assert "has ended" in out
    admin.run("requests", "rules", "end", "budget", code=5)


def test_teams_are_a_tree_that_can_be_changed(terminal_of):
    admin, alice = terminal_of("admin"), terminal_of("alice")
    made = admin.json("teams", "create", "Robots", "--below", "vision")
    assert (made["slug"], made["parent"]) == ("robots", "vision")
    out, _ = admin.run("teams")
    assert "\n  robots" in out
    out, _ = admin.run("teams", "move", "robots", "--top")
    assert "at the top" in out
    admin.run("teams", "move", "robots", code=2)
    alice.run("teams", "create", "Mine", code=4)
    assert "robots" not in [one["slug"] for one in alice.json("teams")]


def test_deputies_are_listed_and_ended_and_never_given_by_a_token(terminal_of):
    bob = terminal_of("bob")
    assert bob.json("deputies") == []
    out, _ = bob.run("deputies")
    assert out == ""
    bob.run("deputies", "end", "999999", code=3)
    _, err = bob.run("deputies", "give", "alice", code=2)
    assert "No such command" in err


def test_a_deputy_is_ended_by_whom_it_was_given_to(stack, terminal_of):
    now = datetime.now(UTC)
    with httpx.Client(base_url=stack.address, follow_redirects=True, timeout=30) as lena:
        # Only a person who signed in lends rights; the token of a terminal does not.
        token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', lena.get("/accounts/login/").text)
        who = {"login": "lena", "password": stack.password("lena")}
        lena.post("/accounts/login/", data={**who, "csrfmiddlewaretoken": token[1]})
        token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', lena.get("/requests/new/").text)
        given = lena.post(
            "/api/v1/delegations/",
            json={
                "deputy": "alice",
                "scope": "approve_requests",
                "team": "vision",
                "starts_at": now.isoformat(),
                "ends_at": (now + timedelta(days=1)).isoformat(),
            },
            headers={"X-CSRFToken": token[1], "Referer": stack.address},
        )
    assert given.status_code == 201, given.text
    number, alice = given.json()["id"], terminal_of("alice")
    assert [one["id"] for one in alice.json("deputies")] == [number]
    out, _ = alice.run("deputies")
    assert "lena" in out and "now" in out
    terminal_of("bob").run("deputies", "end", str(number), code=3)
    out, _ = alice.run("deputies", "end", str(number))
    assert out == "alice acts for lena no longer.\n"
    assert "ended early" in alice.run("deputies")[0]


def test_programs_are_told(terminal_of):
    admin, alice = terminal_of("admin"), terminal_of("alice")
    made = admin.json("webhooks", "add", "https://chat.example.org/told", "--kind", "budget")
    number = str(made["id"])
    out, _ = admin.run("webhooks", "change", number, "--all", "--pause")
    assert "chat.example.org is paused: everything" in out
    listed, _ = admin.run("webhooks")
    assert "paused" in listed and made["secret"] not in listed
    admin.run("webhooks", "remove", number)
    alice.run("webhooks", "deliveries", code=3)
