"""Real torchrun, real gloo, several agents on this host: ranks meet, finish and are stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.states import EndReason
from scheduler.wire.messages import Assignment, AttemptReport, StopOrder
from tests.agent.conftest import Agent, assignment
from tests.agent.portal import Portal
from tests.torch import PYTHON, SETTINGS, STEPS, TORCHRUN, losses, need_torch, shared_sample

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

PATIENCE_S = 120
NODES = ("alpha", "beta", "gamma")
C10D = (
    f"exec {' '.join(TORCHRUN)} --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT"
    " --rdzv_id $TRAINYARD_FENCE "
)
# The last rank has nothing left to do and goes, in the middle of what it does with the others.
LEAVES_EARLY = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(5):
    if step == 2 and dist.get_rank() == dist.get_world_size() - 1:
        print("nothing left to do", flush=True)
        os._exit(0)
    dist.all_reduce(torch.ones(1))
"""
DEAF = """
import signal, time, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("gloo")
print("ready", flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture(scope="module", autouse=True)
def _torch() -> None:
    need_torch()


@pytest.fixture(scope="module")
def three(agent: Agent, agents: Any) -> tuple[str, ...]:
    agents("beta")
    agents("gamma")
    return NODES


@pytest.fixture(scope="module")
def sample(folder: Path) -> Path:
    return shared_sample(folder)


def gang(portal: Portal, nodes: tuple[str, ...], **fields: Any) -> list[Assignment]:
    """Start a job of one rank a node, the way the scheduler tells them: rank 0, then its port."""
    settings = {**SETTINGS, "STEP_S": "0"}
    order = assignment(env=settings, memory_mib=1024, time_limit_s=PATIENCE_S, **fields)
    addresses = ("127.0.0.1",) * len(nodes)
    ranks = [replace(order, rank=rank, addresses=addresses) for rank in range(len(nodes))]
    portal.assign(nodes[0], ranks[0])
    reports = portal.nodes[nodes[0]].reports
    portal.wait(lambda: order.fence in reports and reports[order.fence].master_port, PATIENCE_S)
    port = reports[order.fence].master_port
    for node, rank in zip(nodes[1:], ranks[1:], strict=True):
        portal.assign(node, replace(rank, master_port=port))
    return ranks


def ends(portal: Portal, nodes: tuple[str, ...], fence: int) -> list[AttemptReport]:
    return [portal.ended(node, fence, timeout_s=PATIENCE_S) for node in nodes]


def test_static_variables_alone_make_ranks_meet(
    portal: Portal, three: tuple[str, ...], sample: Path
) -> None:
    first, *_ = gang(portal, three[:2], command=(*TORCHRUN, str(sample)))
    reports = ends(portal, three[:2], first.fence)
    logs = [portal.logs[first.fence, rank].decode() for rank in range(2)]
    assert {report.end_reason for report in reports} == {EndReason.COMPLETED}, logs
    assert len(losses(logs[0])) == STEPS
    assert "rank 1 of 2: done" in logs[1] and not losses(logs[1])


def test_three_nodes_meet_through_the_c10d_rendezvous(
    portal: Portal, three: tuple[str, ...], sample: Path
) -> None:
    command = ("/bin/sh", "-c", f"{C10D}{sample}")
    first, *_ = gang(portal, three, command=command)
    reports = ends(portal, three, first.fence)
    logs = "".join(portal.logs[first.fence, rank].decode() for rank in range(3))
    assert {report.end_reason for report in reports} == {EndReason.COMPLETED}, logs
    assert {f"rank {rank} of 3: done" for rank in range(3)} <= set(logs.splitlines())
    assert len(losses(logs)) == STEPS


def test_a_peer_that_leaves_with_0_fails_those_who_still_need_it(
    portal: Portal, three: tuple[str, ...]
) -> None:
    command = (PYTHON, "-c", LEAVES_EARLY)
    first, *_ = gang(portal, three[:2], command=command)
    left, needed = reversed(ends(portal, three[:2], first.fence))
    assert (left.end_reason, left.exit_code) == (EndReason.COMPLETED, 0)
    assert needed.end_reason == EndReason.EXIT_CODE and needed.exit_code != 0
    assert b"nothing left to do" in portal.logs[first.fence, 1]


def test_ranks_that_ignore_the_stop_signal_are_gone_after_the_grace(
    portal: Portal, three: tuple[str, ...], folder: Path
) -> None:
    program = folder / "deaf.py"
    program.write_text(DEAF)
    program.chmod(0o644)
    nodes = three[:2]
    first, *_ = gang(portal, nodes, command=(*TORCHRUN, str(program)))
    portal.wait(
        lambda: all(b"ready" in portal.logs[first.fence, rank] for rank in range(2)),
        PATIENCE_S,
        "both ranks to be ready",
    )
    for node in nodes:
        portal.stop_attempt(node, first.fence, StopOrder(EndReason.CANCELLED_BY_USER, 1))
    for report in ends(portal, nodes, first.fence):
        assert report.end_reason == EndReason.CANCELLED_BY_USER
        # torchrun itself would have waited 30 s for processes that ignore it.
        assert report.exit_code == 137
