"""Real agents of one node: the disk of a machine was copied, and the copy speaks in its place."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time

import pytest

from portal.bench.figures import client, nodes_of, spec
from portal.bench.witness import SCRIPT, make_witness_folder, read_starts
from portal.embedded.places import ROOT
from portal.embedded.temporary import temporary_stack
from tests.servers import end_leftovers

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
LEASE_S = 6


def _run(stack, state, boot_file):
    """An agent with this state folder, on a machine that was started under this name."""
    under = ("-m", "portal.torture.under", "-", str(boot_file), "-")
    command = (*under, "-m", "scheduler.agent", "run", "--state", str(state))
    with (stack.places.logs / f"{boot_file.name}.log").open("ab") as output:
        return subprocess.Popen(
            (sys.executable, *command),
            cwd=ROOT,
            env=stack.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _submit(api, name, script):
    reply = api.post("/jobs/", json=spec(name, script=script))
    return reply.raise_for_status().json()["id"]


def _until(condition, what):
    deadline = time.monotonic() + 90
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


def test_a_copy_starts_nothing_that_the_silent_original_still_runs():
    nodes = nodes_of(1, 4)
    settings = {"TRAINYARD_NODE_LEASE_S": str(LEASE_S)}
    with temporary_stack(tell=print, nodes=nodes, runs_agents=False, environment=settings) as stack:
        above = stack.places.state.parent
        witness = make_witness_folder(above)
        boots = [above / "first", above / "second"]
        for boot in boots:
            boot.write_text(f"boot-{boot.name}", encoding="ascii")
        original = stack.places.node(nodes[0].name)
        copied = shutil.copytree(original, above / "copied")
        agents = [_run(stack, original, boots[0])]
        try:
            script = SCRIPT.format(folder=witness, seconds=120)
            with client(stack) as api:
                enrolled_at = api.get("/nodes/n1/").json()["last_seen_at"]
                _until(
                    lambda: api.get("/nodes/n1/").json()["last_seen_at"] > enrolled_at,
                    "the original is not heard",
                )
                first = _submit(api, "first", script)
                _until(lambda: read_starts(witness), "the original does not start it")
                _until(
                    lambda: api.get(f"/jobs/{first}/").json()["state"] == "running",
                    "the original does not tell of it",
                )
                agents[0].send_signal(signal.SIGSTOP)
                time.sleep(LEASE_S + 1)
                agents.append(_run(stack, copied, boots[1]))
                second = _submit(api, "second", script)
                _until(lambda: len(read_starts(witness)) > 1, "the copy is given nothing")
                time.sleep(3)
                assert sorted(start.job for start in read_starts(witness)) == [first, second]
                assert api.get(f"/jobs/{first}/").json()["state"] == "running"
                agents[0].send_signal(signal.SIGCONT)
                assert agents[0].wait(90) == 7, "of two that speak the known one goes on"
        finally:
            for agent in agents:
                agent.kill()
                agent.wait(10)
            end_leftovers(str(above))
