"""Several nodes, several processes: every rank gets the variables it needs."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import Assignment
from tests.agent.conftest import Agent, assignment
from tests.agent.portal import Portal

MEET = """
import os, socket
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    door = socket.create_server(place)
    for _ in range(size - 1):
        guest, _ = door.accept()
        print("heard", guest.recv(100).decode(), flush=True)
        guest.sendall(b"welcome")
else:
    with socket.create_connection(place, timeout=10) as guest:
        guest.sendall(f"rank {rank}".encode())
        print(guest.recv(100).decode(), flush=True)
"""


def variables(log: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in log.splitlines() if "=" in line)


def ranks(order: Assignment, count: int = 2) -> list[Assignment]:
    addresses = ("127.0.0.1",) * count
    return [replace(order, rank=rank, addresses=addresses) for rank in range(count)]


def test_two_ranks_on_one_host_meet_at_the_reported_port(
    portal: Portal, agent: Agent, agents: Any
) -> None:
    agents("beta")
    first, second = ranks(assignment(command=("/usr/bin/python3", "-c", MEET)))
    portal.assign("beta", second)
    portal.assign("alpha", first)
    port = portal.wait_for("alpha", first.fence, *AttemptState).master_port
    assert port is not None
    assert first.fence not in portal.nodes["beta"].reports, "rank 1 waits for rank 0's port"
    portal.assign("beta", replace(second, master_port=port))
    assert portal.ended("alpha", first.fence).end_reason == EndReason.COMPLETED
    assert portal.ended("beta", first.fence).end_reason == EndReason.COMPLETED
    assert portal.logs[first.fence, 0] == b"heard rank 1\n"
    assert portal.logs[first.fence, 1] == b"welcome\n"


def test_one_process_per_node_has_torchruns_and_our_variables(portal: Portal, agent: Agent) -> None:
    book = portal.nodes["alpha"]
    assert book.enrolment is not None
    cards = tuple(device.uuid for device in book.enrolment.devices)
    _, order = ranks(assignment("env", device_uuids=cards, cpus=4, env={"MINE": "yes"}))
    # A path that only the server has seen is no checkpoint.
    order = replace(order, master_port=23456, resume_from="/elsewhere/epoch-2")
    _, log = portal.outcome("alpha", order)
    found = variables(log)
    expected = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "23456",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": "1",
        "GROUP_RANK": "1",
        "NNODES": "2",
        "NPROC_PER_NODE": "1",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "23456",
        "OMP_NUM_THREADS": "4",
        "CUDA_VISIBLE_DEVICES": ",".join(cards),
        "TRAINYARD_JOB_ID": str(order.job_id),
        "TRAINYARD_JOB_NAME": "digits",
        "TRAINYARD_ATTEMPT": "1",
        "TRAINYARD_FENCE": str(order.fence),
        "TRAINYARD_TEAM": "vision",
        "TRAINYARD_PROJECT": "vision/digits",
        "TRAINYARD_NODE_RANK": "1",
        "TRAINYARD_NODE_IPS": "127.0.0.1,127.0.0.1",
        "TRAINYARD_RESUME_FROM": "",
        "MINE": "yes",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found["HOME"] == found["PWD"] and found["TMPDIR"] == found["TRAINYARD_SCRATCH_DIR"]
    assert "NCCL_SOCKET_IFNAME" not in found


def test_a_users_variable_never_replaces_one_of_ours(portal: Portal, agent: Agent) -> None:
    env = {"RANK": "77", "CUDA_VISIBLE_DEVICES": "0", "TRAINYARD_FENCE": "0", "LANG": "C"}
    order = assignment("env", env=env)
    _, log = portal.outcome("alpha", order)
    found = variables(log)
    assert (found["RANK"], found["CUDA_VISIBLE_DEVICES"]) == ("0", "")
    assert (found["TRAINYARD_FENCE"], found["LANG"]) == (str(order.fence), "C")


def test_one_process_per_gpu_gets_its_own_rank(portal: Portal, agent: Agent) -> None:
    _, order = ranks(
        assignment('echo "$LOCAL_RANK $RANK $WORLD_SIZE $NPROC_PER_NODE"', processes_per_node=3)
    )
    _, log = portal.outcome("alpha", replace(order, master_port=23456))
    assert sorted(log.splitlines()) == ["0 3 6 3", "1 4 6 3", "2 5 6 3"]


def test_the_first_failure_stops_the_other_processes(portal: Portal, agent: Agent) -> None:
    script = 'if [ "$LOCAL_RANK" = 1 ]; then sleep 0.3; exit 7; fi; sleep 300'
    report, _ = portal.outcome("alpha", assignment(script, processes_per_node=3))
    assert (report.end_reason, report.exit_code) == (EndReason.EXIT_CODE, 7)
    assert report.started_at is not None and report.ended_at is not None
    assert report.ended_at - report.started_at < 5


def test_rank_0s_port_is_held_until_its_program_starts(portal: Portal, agent: Agent) -> None:
    code = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"]))): print("bound")
"""
    report, log = portal.outcome("alpha", assignment(command=("/usr/bin/python3", "-c", code)))
    assert log == "bound\n"
    assert report.master_port is not None and 20_000 <= report.master_port < 32_000


def test_two_holders_never_share_a_port() -> None:
    from scheduler.agent.setup.ports import hold_port

    with hold_port("127.0.0.1", (20_000, 31_999)) as holder:
        port = holder.getsockname()[1]
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                other.bind(("127.0.0.1", port))
            except OSError:
                return
        raise AssertionError("the port could be bound twice")
