"""A node's token is renewed under a running agent: lost answers, a kill at the worst moment."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.config import read_identity
from scheduler.wire.messages import Refusal, SyncReply, SyncRequest
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import NodeBook, Portal


class Renewing(Portal):
    """Offers a node a token with each answer; its first use ends the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: dict[str, str] = {}

    def answer(self, path: str, token: str, body: bytes) -> tuple[int, object] | None:
        for name in [name for name, offered in self.offered.items() if offered == token]:
            self.tokens = {t: n for t, n in self.tokens.items() if n != name} | {token: name}
            del self.offered[name]
        return super().answer(path, token, body)

    def _sync(self, book: NodeBook, request: SyncRequest) -> SyncReply:
        offered = self.offered.get(book.name, "") if request.takes_token else ""
        return replace(super()._sync(book, request), next_token=offered)


@pytest.fixture(scope="module")
def portal() -> Iterator[Renewing]:
    portal = Renewing()
    portal.start()
    yield portal
    portal.stop()


def _token(agent: Agent) -> str:
    return read_identity(agent.state).node_token


def _uses(portal: Renewing, agent: Agent, token: str) -> None:
    portal.wait(lambda: portal.tokens.get(token) == agent.name, what="the use of the token")
    seen = len(portal.nodes[agent.name].syncs)
    portal.wait(lambda: len(portal.nodes[agent.name].syncs) > seen + 2, what="calls with it")


def test_a_token_is_renewed_under_a_running_attempt(portal: Renewing, agents: Any) -> None:
    agent: Agent = agents("rotated")
    order = assignment("echo one; sleep 4; echo two")
    portal.assign(agent.name, order)
    portal.wait(lambda: portal.logs[order.fence, 0], what="the first words")
    first = _token(agent)
    portal.offered[agent.name] = "second-of-rotated"
    _uses(portal, agent, "second-of-rotated")
    kept = read_identity(agent.state)
    assert (kept.node_token, kept.former_token) == ("second-of-rotated", first)
    assert stat.S_IMODE((agent.state / "node.json").stat().st_mode) == 0o600
    assert first not in portal.tokens
    portal.ended(agent.name, order.fence)
    assert portal.logs[order.fence, 0] == b"one\ntwo\n", "its log went on under the new token"
    assert len({sync.agent_id for sync in portal.nodes[agent.name].syncs}) == 1
    said = agent.log.read_text()
    assert "has renewed" in said and "Enrol the node again" not in said
    assert "second-of-rotated" not in said and first not in said


def test_killed_between_writing_and_use_it_comes_back_with_the_new_one(
    portal: Renewing, agents: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent: Agent = agents("killed", start=False)
    (tmp_path / "agent.token-written").write_text("kill")
    monkeypatch.setenv("TRAINYARD_FAILPOINTS", str(tmp_path))
    first = _token(agent)
    portal.offered[agent.name] = "second-of-killed"
    agent.start()
    assert agent.process is not None
    assert agent.process.wait(20) == -9
    assert _token(agent) == "second-of-killed"
    assert first in portal.tokens and portal.offered, "nobody has used it"
    agent.start()
    _uses(portal, agent, "second-of-killed")
    assert first not in portal.tokens


def test_answers_that_are_lost_cost_nothing(portal: Renewing, agents: Any) -> None:
    agent: Agent = agents("unlucky")
    lost: list[str] = []
    answer = portal.answer

    def swallow(path: str, token: str, body: bytes) -> Any:
        found = answer(path, token, body)
        # The server has taken the call in; the first three answers to each token are lost.
        if "sync" in path and portal.tokens.get(token) == agent.name and lost.count(token) < 3:
            lost.append(token)
            return None
        return found

    portal.answer = swallow  # type: ignore[method-assign]
    try:
        portal.offered[agent.name] = "second-of-unlucky"
        _uses(portal, agent, "second-of-unlucky")
    finally:
        portal.answer = answer  # type: ignore[method-assign]
    assert lost.count("second-of-unlucky") == 3
    assert _token(agent) == "second-of-unlucky"


def test_a_server_that_was_put_back_knows_the_one_before(portal: Renewing, agents: Any) -> None:
    agent: Agent = agents("restored")
    first = _token(agent)
    portal.offered[agent.name] = "second-of-restored"
    _uses(portal, agent, "second-of-restored")
    del portal.tokens["second-of-restored"]
    portal.tokens[first] = agent.name
    _uses(portal, agent, first)
    portal.offered[agent.name] = "third-of-restored"
    _uses(portal, agent, "third-of-restored")
    assert read_identity(agent.state).former_token == first


def test_a_token_that_cannot_be_written_is_not_used(portal: Renewing, agents: Any) -> None:
    agent: Agent = agents("full")
    first = _token(agent)
    assert agent.process is not None
    blocked = agent.state / f".node.json.{agent.process.pid}"  # where it would be written first
    blocked.mkdir()
    portal.offered[agent.name] = "second-of-full"
    wait_until(lambda: "cannot be written" in agent.log.read_text())
    assert portal.tokens[first] == agent.name
    blocked.rmdir()
    _uses(portal, agent, "second-of-full")


def test_both_tokens_refused_it_says_what_to_do(portal: Renewing, agents: Any) -> None:
    agent: Agent = agents("shut-out")
    portal.offered[agent.name] = "second-of-shut-out"
    _uses(portal, agent, "second-of-shut-out")
    refused: list[str] = []

    def refuse(path: str) -> tuple[int, object]:
        refused.append(path)
        return 401, Refusal("node_token_invalid", "this token is not known")

    portal.trouble = refuse
    try:
        wait_until(lambda: "Enrol the node again with a new token" in agent.log.read_text())
    finally:
        portal.trouble = None
    _uses(portal, agent, "second-of-shut-out")
