"""A real agent of another version at a real server: served, or told so and seen to be (B98)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.agent.__main__ import Exit
from scheduler.wire.messages import OLDEST_PROTOCOL

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(240)]
ROOT = Path(__file__).resolve().parents[2]
# The agent as it would be had it this version and protocol: both are read where it starts.
AGENT = """import sys
from scheduler.wire import messages
messages.AGENT_VERSION, messages.PROTOCOL = sys.argv[1], int(sys.argv[2])
from scheduler.agent.__main__ import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture
def stack(make_stack):
    return make_stack(nodes=())


@pytest.fixture
def agent(stack):
    """Starts one: its version, its protocol, and what it is to do."""
    running = []

    def start(version: str, protocol: int, *words: str, token: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", AGENT, version, str(protocol), *words],
            cwd=ROOT,
            env={**os.environ, "TRAINYARD_ENROL_TOKEN": token},
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def token_of(stack) -> str:
    with stack.api("admin") as api:
        reply = api.post("/nodes/tokens/", json={"pool": "default"})
        assert reply.status_code == 201, reply.text
        return reply.json()["token"]


def test_of_other_versions_one_is_served_and_one_is_told_why_not(stack, agent):
    state = stack.places.state / "odd-node"
    place = ("--state", str(state))
    enrol = ("enrol", "--server", stack.address, "--name", "odd", "--simulated-gpus", "2", *place)
    run = ("run", *place)
    refused = agent("99", 99, *enrol, token=token_of(stack))
    _, said = refused.communicate(timeout=60)
    assert refused.returncode == Exit.ENROL_REFUSED and "speaks protocols" in said

    old = agent("0.0.1", OLDEST_PROTOCOL, *enrol, token=token_of(stack))
    assert old.wait(60) == Exit.DONE, old.stderr.read()
    old = agent("0.0.1", OLDEST_PROTOCOL, *run)
    done = stack.submit(script="echo served")
    assert stack.wait_for(done["id"])["state"] == "succeeded"
    long = stack.submit(script="sleep 40; echo through")
    stack.wait_for(long["id"], "running")
    with stack.api("admin") as api:
        assert api.get("/nodes/odd/").json()["agent_version"] == "0.0.1"
    old.terminate()
    assert old.wait(60) == Exit.DONE

    new = agent("99", 99, *run)
    _, said = new.communicate(timeout=60)
    assert new.returncode == Exit.PROTOCOL_UNSUPPORTED
    assert "This server speaks protocols" in said and "Traceback" not in said
    with stack.api("admin") as api:
        assert api.get("/nodes/odd/").json()["agent_version"] == "99"

    agent("0.1.0", OLDEST_PROTOCOL, *run)
    ended = stack.wait_for(long["id"])
    assert ended["state"] == "succeeded"
    with stack.api("alice") as api:
        assert len(api.get(f"/jobs/{long['id']}/attempts/").json()["items"]) == 1
    assert "through" in stack.log(long["id"])
