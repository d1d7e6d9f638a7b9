"""Kill the whole control plane with a long queue: how long until it starts jobs again."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

import httpx

from portal.bench.figures import add_database, client, machine, nodes_of, spec, tell
from portal.bench.outages import kill_control_plane, restart, running_agents
from portal.bench.witness import (
    SCRIPT,
    make_witness_folder,
    read_starts,
    submit_one,
    wait_for_all,
)
from portal.embedded.temporary import temporary_stack

MOST = {"queued": 1_000_000}
BULK = 100
PATIENCE_S = 300.0
# One GPU that is free again after so long: the queue stays, and something can start at any time.
JOB_S = 1.0


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench restart`."""
    add_database(parser)
    parser.add_argument("--queued", type=int, default=20_000, help="default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Queue the jobs, `kill -9` everything but agents and database, start again.

    ready_s: until the portal answers that it is; recovery_s: until a job that had waited executes
    its first instruction, told by a witness of its own outside the product.
    """
    nodes = nodes_of(1, 1)
    with (
        temporary_stack(
            tell=tell, nodes=nodes, runs_agents=False, database=options["database"]
        ) as stack,
        running_agents(stack, nodes),
    ):
        folder = make_witness_folder(stack.places.state.parent)
        with client(stack) as api:
            wait_for_all(api, [submit_one(api, 0, "true")])
            tell(f"queueing {options['queued']} jobs")
            _queue(api, options["queued"], SCRIPT.format(folder=folder, seconds=JOB_S))
        killed = kill_control_plane(stack)
        before = len(read_starts(folder))
        tell(f"{killed} processes killed; {before} jobs had started by then; starting again")
        began = time.time()
        restart(stack)
        ready_s = time.time() - began
        deadline = time.monotonic() + PATIENCE_S
        while not (later := [one.at_s for one in read_starts(folder) if one.at_s > began]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no job was started within {PATIENCE_S:.0f} s")
            time.sleep(0.05)
    return {
        "bench": "restart",
        "queued": options["queued"] - before,
        "ready_s": round(ready_s, 2),
        "recovery_s": round(min(later) - began, 2),
        "database": options["database"],
        **machine(),
    }


def _queue(api: httpx.Client, count: int, script: str) -> None:
    for first in range(0, count, BULK):
        numbers = range(first, min(count, first + BULK))
        jobs = [spec(f"bench-{number}", script=script) for number in numbers]
        api.post("/jobs/bulk/", json={"jobs": jobs}).raise_for_status()
