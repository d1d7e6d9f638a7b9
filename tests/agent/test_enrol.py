"""Becoming a node, staying one, and leaving with a code that says why."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.__main__ import Exit
from scheduler.agent.config import NodeIdentity, write_identity
from scheduler.wire.messages import Refusal
from tests.agent.conftest import ROOT, Agent, assignment
from tests.agent.portal import TOKEN, Portal


def call(*arguments: str, token: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRAINYARD_ENROL_TOKEN": token}
    return subprocess.run(
        [sys.executable, "-m", "scheduler.agent", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def calm(portal: Portal) -> Iterator[Portal]:
    yield portal
    portal.trouble = None


def enrol_line(portal: Portal, state: Path, *more: str) -> tuple[str, ...]:
    return ("enrol", "--server", portal.url, "--state", str(state), "--simulated-gpus", "2", *more)


def test_the_identity_is_stored_for_this_user_only(portal: Portal, folder: Path) -> None:
    state = folder / "fresh" / "state"
    done = call(*enrol_line(portal, state, "--name", "node-7", "--cpus", "3"), token=TOKEN)
    assert done.returncode == Exit.DONE, done.stderr
    identity = json.loads((state / "node.json").read_text())
    assert portal.tokens[identity["node_token"]] == "node-7" and identity["pool"] == "main"
    assert stat.S_IMODE((state / "node.json").stat().st_mode) == 0o600
    asked = portal.nodes["node-7"].enrolment
    assert asked is not None and asked.host.cpus == 3 and len(asked.devices) == 2
    assert TOKEN not in done.stderr and identity["node_token"] not in done.stderr


def test_the_token_may_come_from_a_file(portal: Portal, folder: Path) -> None:
    secret = folder / "token"
    secret.write_text(f"{TOKEN}\n")
    line = enrol_line(portal, folder / "by-file", "--name", "by-file", "--token-file", str(secret))
    assert call(*line).returncode == Exit.DONE


def test_simulated_cards_keep_their_ids(portal: Portal, folder: Path) -> None:
    seen = []
    for place in ("once", "again"):
        call(*enrol_line(portal, folder / place, "--name", "steady"), token=TOKEN)
        enrolment = portal.nodes["steady"].enrolment
        assert enrolment is not None
        seen.append([device.uuid for device in enrolment.devices])
    assert seen[0] == seen[1] and len(set(seen[0])) == 2


@pytest.mark.parametrize(
    ("more", "token", "code", "words"),
    [
        ((), "wrong", Exit.ENROL_REFUSED, "was used or has expired"),
        ((), "", Exit.NOT_CONFIGURED, "--token-file"),
        (("--name", "Not A Name"), TOKEN, Exit.NOT_CONFIGURED, "--name"),
        (("--token-file", "/no/such/file"), "", Exit.NOT_CONFIGURED, "--token-file"),
        (("--simulated-gpus", "-1"), TOKEN, 2, "--simulated-gpus"),
        (("--job-uids", "5-3"), TOKEN, 2, "--job-uids"),
        (("--hold-s", "nan"), TOKEN, 2, "--hold-s"),
        (("--server", "portal:80"), TOKEN, 2, "--server"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_stored(
    portal: Portal, folder: Path, more: tuple[str, ...], token: str, code: int, words: str
) -> None:
    state = folder / "never"
    done = call(*enrol_line(portal, state, *more), token=token)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert not (state / "node.json").exists()


def test_an_unreachable_server_fails_the_preflight_with_a_remedy(folder: Path) -> None:
    line = ("--server", "http://127.0.0.1:9", "--state", str(folder), "--simulated-gpus", "1")
    done = call("preflight", *line)
    assert done.returncode == Exit.PREFLIGHT_FAILED
    assert "FAIL  server" in done.stderr and "firewalls" in done.stderr
    done = call("enrol", *line, "--skip-preflight", token=TOKEN)
    assert done.returncode == Exit.SERVER_AWAY


def test_a_preflight_that_is_well_says_so(portal: Portal, folder: Path) -> None:
    line = ("--server", portal.url, "--state", str(folder), "--simulated-gpus", "1")
    done = call("preflight", *line)
    assert done.returncode == Exit.DONE
    assert "ok    clock: 0 s from the server's" in done.stderr or "clock: 1 s" in done.stderr
    assert "1 simulated" in done.stderr


def test_without_a_driver_the_preflight_says_what_to_do(portal: Portal, folder: Path) -> None:
    done = call("preflight", "--server", portal.url, "--state", str(folder))
    if "ok    gpus" in done.stderr:
        pytest.skip("this host has a driver")
    assert done.returncode == Exit.PREFLIGHT_FAILED
    assert "nvidia-smi" in done.stderr and "--simulated-gpus" in done.stderr


def test_running_without_enrolment_says_what_to_type(folder: Path) -> None:
    done = call("run", "--state", str(folder / "empty"))
    assert done.returncode == Exit.NOT_CONFIGURED
    assert "enrol --server URL --token TOKEN" in done.stderr


@pytest.mark.parametrize("trouble", ["no driver", "no disk"])
def test_what_may_pass_ends_an_agent_so_that_it_is_started_again(
    portal: Portal, folder: Path, trouble: str
) -> None:
    """Jobs run on here for the grace alone; systemd leaves only what a person has to mend."""
    state = folder / trouble.replace(" ", "-")
    count = 0 if trouble == "no driver" else 1
    write_identity(state, NodeIdentity(portal.url, 1, "n", "main", "token", simulated_gpus=count))
    if trouble == "no disk":
        (state / "agent.lock").mkdir()
    elif shutil.which("nvidia-smi"):
        pytest.skip("this host has a driver")
    done = call("run", "--state", str(state))
    assert done.returncode == Exit.FAILED, done.stderr
    unit = (ROOT / "deploy" / "systemd" / "trainyard-agent.service").read_text()
    assert f"RestartPreventExitStatus={int(Exit.NOT_CONFIGURED)} 7 8" in unit
    assert "LimitMEMLOCK=infinity" in unit


def test_one_state_folder_has_one_agent(portal: Portal, agents: Any) -> None:
    agent: Agent = agents("single")
    book = portal.nodes["single"]
    portal.wait(lambda: book.syncs, what="a sync")
    done = call("run", "--state", str(agent.state))
    assert done.returncode == Exit.ALREADY_RUNNING
    assert agent.process is not None and agent.process.poll() is None


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (409, "node_identity_conflict", Exit.IDENTITY_CONFLICT),
        (426, "protocol_unsupported", Exit.PROTOCOL_UNSUPPORTED),
    ],
)
def test_a_final_refusal_ends_the_agent_but_not_its_attempt(
    calm: Portal, agents: Any, status: int, code: str, exit_code: Exit
) -> None:
    agent: Agent = agents(f"refused-{status}")
    order = assignment("echo one; sleep 1.5; echo two")
    calm.assign(agent.name, order)
    calm.wait(lambda: calm.logs[order.fence, 0], what="the first words")
    calm.trouble = lambda path: (status, Refusal(code, "no")) if "sync" in path else None
    assert agent.process is not None
    assert agent.process.wait(10) == exit_code
    calm.trouble = None
    agent.start()
    calm.ended(agent.name, order.fence)
    assert calm.logs[order.fence, 0] == b"one\ntwo\n"


def test_a_token_that_is_not_accepted_leaves_attempts_running(calm: Portal, agents: Any) -> None:
    agent: Agent = agents("doubted")
    order = assignment("echo one; sleep 1; echo two")
    calm.assign(agent.name, order)
    calm.wait(lambda: calm.logs[order.fence, 0], what="the first words")
    turned_away = []

    def doubt(path: str) -> tuple[int, object]:
        turned_away.append(path)
        return 401, Refusal("bad_token", "this token was replaced")

    calm.trouble = doubt
    calm.wait(lambda: len(turned_away) > 4, what="several tries")
    calm.trouble = None
    calm.ended(agent.name, order.fence)
    assert calm.logs[order.fence, 0] == b"one\ntwo\n"
    assert "Enrol the node again with a new token" in agent.log.read_text()


def test_a_new_token_is_taken_up_without_a_restart(portal: Portal, agents: Any) -> None:
    agent: Agent = agents("renewed")
    order = assignment("echo one; sleep 1.5; echo two")
    portal.assign(agent.name, order)
    portal.wait(lambda: portal.logs[order.fence, 0], what="the first words")
    assert agent.enrol() == Exit.DONE, "the old token is refused from here on"
    portal.ended(agent.name, order.fence)
    assert portal.logs[order.fence, 0] == b"one\ntwo\n"
    assert len({sync.agent_id for sync in portal.nodes["renewed"].syncs}) == 1
