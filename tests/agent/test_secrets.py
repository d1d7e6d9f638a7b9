"""Secrets of jobs on the node: files in memory for the job alone, masked in its log, then gone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent import runner
from scheduler.agent.config import Options
from scheduler.agent.runner import Attempt
from scheduler.agent.runtime.forking.forkserver import Forkserver
from scheduler.agent.runtime.records import LaunchRecord
from scheduler.agent.runtime.space.memory import memory_folder, remove_memory_of_others
from scheduler.agent.runtime.space.trees import remove_tree
from scheduler.agent.setup.prepare import Ground, prepare
from scheduler.agent.spool import Spool
from scheduler.states import EndReason
from scheduler.wire.messages import Assignment, Refusal
from scheduler.wire.secrets import SecretsReply, SecretValue
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal

MEMORY = Path("/dev/shm")
VALUE = "hunter2-but-longer"
SCRIPT = """
cd "$TRAINYARD_SECRETS_DIR"; stat -c '%a %U' hub-token | cut -d' ' -f1
echo "value: $(cat hub-token)"; base64 hub-token
( echo x > hub-token ) 2>/dev/null || echo cannot write
df --output=fstype . | tail -1
env | grep -c hunter2
"""


@pytest.fixture
def hands(portal: Portal) -> Iterator[list[str]]:
    """A portal that hands the secret out; the calls it got."""
    calls: list[str] = []

    def answer(path: str) -> tuple[int, object] | None:
        if not path.endswith("/secrets"):
            return None
        calls.append(path)
        if len(calls) == 1:
            return 503, Refusal("unavailable", "try again")
        if len(calls) == 2:
            return 404, b"<html>a proxy that is just reading its rules</html>"
        return 200, SecretsReply((SecretValue("hub-token", VALUE),))

    portal.trouble = answer
    yield calls
    portal.trouble = None


def _traces(agent: Agent) -> list[str]:
    """Files of the agent that hold the value."""
    found = []
    for path in agent.state.rglob("*"):
        if path.is_file() and VALUE.encode() in path.read_bytes():
            found.append(str(path))
    return found


@pytest.mark.parametrize("isolation", ["", "sandbox"])
def test_a_secret_is_a_file_and_nowhere_else(
    portal: Portal, agents: Any, hands: list[str], isolation: str
) -> None:
    if isolation and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    name = f"keeper{isolation}"
    agent = agents(name, *(["--isolation", isolation] if isolation else []))
    order = assignment(SCRIPT, secrets=("hub-token",))
    report, log = portal.outcome(name, order)
    assert report.end_reason == EndReason.EXIT_CODE and report.exit_code == 1, log
    assert log.splitlines() == ["400", "value: ***", "***", "cannot write", "tmpfs", "0"]
    assert hands == [f"/api/agent/v1/attempts/{order.fence}/secrets"] * 3
    mine = f"-{order.fence}-0"
    wait_until(lambda: not [p for p in os.listdir("/dev/shm") if p.endswith(mine)])
    assert _traces(agent) == []


def test_a_secret_that_is_gone_ends_the_attempt_in_words(portal: Portal, agents: Any) -> None:
    agents("beta")
    words = "secrets: hub-token was deleted. Set it again."

    def gone(path: str) -> tuple[int, object] | None:
        return (409, Refusal("secret_gone", words)) if path.endswith("/secrets") else None

    portal.trouble = gone
    try:
        order = assignment("true", secrets=("hub-token",))
        report, _ = portal.outcome("beta", order)
    finally:
        portal.trouble = None
    assert (report.end_reason, report.detail) == (EndReason.SETUP_FAILED, words)
    assert not list(Path("/dev/shm").glob(f"*-{order.fence}-0"))


def test_a_start_that_is_broken_off_leaves_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stop between the secrets and the program; by the death of the agent there."""
    agent = f"trainyard-test-{os.getpid()}"
    ground = Ground(
        options=Options(tmp_path, tmp_path),
        hint_address=agent,
        last_sync_paths=(tmp_path, tmp_path),
        uids=None,
        look=lambda *_: None,
        device_files=lambda _: (),
        sandbox="",
        secrets=lambda _: SecretsReply((SecretValue("hub-token", VALUE),)),
        master_port=0,
        is_stopped=lambda: False,
    )
    spool = Spool(tmp_path / "spool")
    spool.accept([slot := spool.open(order := assignment("true", secrets=("hub-token",)))])
    attempt = Attempt(slot)
    seen: list[Path] = []

    def then_stopped(order: Assignment, ground: Ground) -> LaunchRecord:
        launch = prepare(order, ground)
        seen.extend(MEMORY.glob(f"{agent}-*/secrets/hub-token"))
        attempt.order_stop(EndReason.CANCELLED_BY_USER, 5)
        return launch

    monkeypatch.setattr(runner, "prepare", then_stopped)
    attempt.begin(ground, Forkserver())
    assert attempt.end is not None and len(seen) == 1
    assert list(MEMORY.glob(f"{agent}-*")) == []
    mine = memory_folder(agent, order.fence, 0)
    for place in (mine, memory_folder(agent, 999_999, 1)):
        (place / "secrets").mkdir(parents=True)
    remove_memory_of_others(agent, {f"{order.fence}-0"})
    assert list(MEMORY.glob(f"{agent}-*")) == [mine]
    attempt.clean_up(tmp_path, agent, remove_tree)
    assert not mine.exists()
