"""An operator renews a node's token: real servers, a real agent."""

from __future__ import annotations

import time

import httpx
import pytest

from scheduler.agent.config import read_identity

pytestmark = [pytest.mark.stack, pytest.mark.once]


def test_a_nodes_token_is_renewed_under_its_agent(terminal_of, stack):
    olga, place = terminal_of("olga"), stack.places.node("alpha")
    before = read_identity(place).node_token
    assert "Node alpha is" in olga.run("nodes", "renew-token", "alpha")[0]
    deadline = time.monotonic() + 60
    while (kept := read_identity(place)).node_token == before:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert kept.former_token == before
    time.sleep(12)
    assert olga.json("nodes")[0]["state"] == "ready", "it is heard with the new one"
    with httpx.Client(base_url=f"{stack.address}/api/agent/v1") as old:
        headers = {"Authorization": f"Bearer {before}"}
        assert old.post("/sync", json={}, headers=headers).status_code == 401
