"""Distributed training with real torch on three nodes: a lost node costs work, never the result."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from portal.embedded.programs import LocalNode
from tests.servers import running_stack
from tests.torch import PYTHON, SETTINGS, TORCHRUN, losses, need_torch, shared_sample, undisturbed

pytestmark = [pytest.mark.stack, pytest.mark.torch, pytest.mark.timeout(300)]

NODES = tuple(LocalNode(name, 1, cpus=4, memory_mib=8192) for name in ("alpha", "beta", "gamma"))
PATIENCE_S = 120
LEAVES_EARLY = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
last = dist.get_rank() == dist.get_world_size() - 1
for step in range(5):
    if step == 2:
        if last:
            os._exit(0)
        time.sleep(2)
    dist.all_reduce(torch.ones(1))
"""


@pytest.fixture(scope="module")
def three_nodes():
    need_torch()
    with running_stack(NODES) as live:
        yield live


@pytest.fixture(scope="module")
def undisturbed_losses(three_nodes, tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("alone"))


@pytest.fixture
def submit(three_nodes):
    """Submits a gang whose checkpoints lie in a folder that all nodes and users share."""

    def of(nodes, **fields):
        folder = three_nodes.places.run.parent / f"shared-{time.monotonic_ns()}"
        folder.mkdir()
        # Not sticky: every attempt is another user, who replaces the note of the one before.
        folder.chmod(0o777)
        command = [*TORCHRUN, str(shared_sample(folder))]
        fields = {"command": command, "checkpoint_dir": str(folder), **fields}
        return three_nodes.submit(
            nodes=nodes,
            env={**SETTINGS, "STEP_S": "0.2"},
            memory="1GiB",
            stop={"grace": "5s"},
            **fields,
        )["id"]

    return of


def _get(stack, path, **params):
    with stack.api() as api:
        reply = api.get(path, params=params)
        assert reply.status_code == 200, reply.text
        return reply.json()


def _attempts(stack, job):
    return _get(stack, f"/jobs/{job}/attempts/")["items"]


def _log(stack, job, attempt, rank):
    with stack.api() as api:
        reply = api.get(f"/jobs/{job}/log/", params={"attempt": attempt, "rank": rank})
    return "\n".join(reply.json()["lines"]) if reply.status_code == 200 else ""


def _when_saved(stack, job):
    """The first attempt, once a checkpoint of its was read back."""
    deadline = time.monotonic() + PATIENCE_S
    while not ((found := _attempts(stack, job)) and found[0]["checkpoint"]):
        assert time.monotonic() < deadline, [_log(stack, job, 1, rank) for rank in range(3)]
        time.sleep(0.1)
    return found[0]


def _lose_node(stack, name):
    """Agent and supervisors die at once, without a word."""
    os.kill(stack.supervisor.pid_of(f"node-{name}"), signal.SIGKILL)
    for record in Path(stack.places.node(name), "spool").glob("*/supervisor.json"):
        if not (record.parent / "exit.json").exists():
            os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)


def _went_on(stack, job, lost, undisturbed_losses):
    """The job's attempts, after it was seen to go on elsewhere and to lose nothing."""
    done = stack.wait_for(job, timeout_s=PATIENCE_S)
    attempts = _attempts(stack, job)
    logs = [_log(stack, job, one["number"], 0) for one in attempts]
    assert done["state"] == "succeeded", (done["end"], attempts, logs)
    first, second = attempts
    assert first["end_reason"] == "node_lost", (first, logs)
    assert lost not in {rank["node"] for rank in second["ranks"]}
    assert second["resume_step"] >= first["checkpoint"]["step"] > 0
    assert second["resume_problem"] == ""
    assert f"resumed after step {second['resume_step']}" in logs[1]
    # Steps after the checkpoint ran twice, and gave the same; on fewer nodes too.
    for found in map(losses, logs):
        worst = max((abs(undisturbed_losses[n] - loss) for n, loss in found.items()), default=0.0)
        assert worst <= 1e-6, worst
    assert losses(logs[0]).keys() | losses(logs[1]).keys() == undisturbed_losses.keys()
    return first, second


def test_an_elastic_gang_that_loses_a_node_is_formed_again_of_the_others(
    three_nodes, submit, undisturbed_losses
):
    job = submit("2..3")
    first = _when_saved(three_nodes, job)
    assert len(first["ranks"]) == 3
    lost = first["ranks"][2]["node"]
    _lose_node(three_nodes, lost)
    _, second = _went_on(three_nodes, job, lost, undisturbed_losses)
    assert len(second["ranks"]) == 2


def test_a_gang_whose_first_host_is_lost_gets_another_one(three_nodes, submit, undisturbed_losses):
    job = submit(2)
    first = _when_saved(three_nodes, job)
    lost = first["ranks"][0]["node"]
    _lose_node(three_nodes, lost)
    _, second = _went_on(three_nodes, job, lost, undisturbed_losses)
    assert len(second["ranks"]) == 2


def test_a_peer_that_ends_well_too_early_fails_the_job_and_is_told_of(three_nodes, submit):
    job = submit(2, command=[PYTHON, "-c", LEAVES_EARLY])
    done = three_nodes.wait_for(job, timeout_s=PATIENCE_S)
    assert done["state"] == "failed", done
    (only,) = _attempts(three_nodes, job)
    assert [rank["exit_code"] for rank in only["ranks"]] == [1, 0]
    assert (only["triage"]["failure"], only["triage"]["signature"]) == (
        "user_code",
        "peer_finished_early",
    )
