"""Kill the whole control plane after the last accepted job: what is lost, what runs twice."""

from __future__ import annotations

import signal
import time
from argparse import ArgumentParser
from typing import Any

from portal.bench.figures import MOST_NODES, add_database, client, machine, nodes_of, tell
from portal.bench.outages import kill_control_plane, restart, running_agents
from portal.bench.witness import (
    SCRIPT,
    make_witness_folder,
    read_starts,
    submit_one,
    verdict,
    wait_for_all,
)
from portal.embedded.temporary import temporary_stack

MOST = {"jobs": 100_000, "nodes": MOST_NODES, "gpus_per_node": 64, "seconds": 300}


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench kill`."""
    parser.add_argument("--jobs", type=int, default=120, help="default %(default)s")
    parser.add_argument(
        "--nodes", type=int, default=2, help=f"1 to {MOST_NODES}; default %(default)s"
    )
    parser.add_argument("--gpus-per-node", type=int, default=8, help="default %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="how long each job runs; default %(default)s"
    )
    add_database(parser)
    parser.add_argument("--agents", action="store_true", help="kill the nodes' agents as well")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Submit, kill after the last 2xx, start again, wait for all; then ask the witnesses.

    lost: acknowledged jobs that the portal does not know afterwards, that did not succeed, or
    that never started. doubled: jobs that started more than once, whatever the attempt.
    """
    nodes = nodes_of(options["nodes"], options["gpus_per_node"])
    kept = {"runs_agents": False, "database": options["database"]}
    with (
        temporary_stack(tell=tell, nodes=nodes, **kept) as stack,
        running_agents(stack, nodes) as agents,
    ):
        folder = make_witness_folder(stack.places.state.parent)
        script = SCRIPT.format(folder=folder, seconds=options["seconds"])
        with client(stack) as api:
            # Until a job has run through, the agents may not have introduced themselves.
            wait_for_all(api, [submit_one(api, 0, "true")])
            tell(f"submitting {options['jobs']} jobs, one after another")
            acknowledged = [submit_one(api, number, script) for number in range(options["jobs"])]
        killed = kill_control_plane(stack)
        if options["agents"]:
            agents.end(signal.SIGKILL)
        before = read_starts(folder)
        tell(f"{killed} processes killed; {len(before)} jobs had started by then; starting again")
        began = time.time()
        if options["agents"]:
            agents.start()
        restart(stack)
        ready_s = time.time() - began
        with client(stack) as api:
            states = wait_for_all(api, acknowledged)
        last_end_s = time.time() - began
        starts = read_starts(folder)
    later = [start.at_s - began for start in starts if start.at_s > began]
    return {
        "bench": "kill",
        "jobs": options["jobs"],
        "nodes": options["nodes"],
        "gpus_per_node": options["gpus_per_node"],
        "seconds": options["seconds"],
        "are_agents_killed": options["agents"],
        "acknowledged": len(acknowledged),
        **verdict(acknowledged, states, starts),
        "started_before_kill": len({start.job for start in before}),
        "ready_s": round(ready_s, 2),
        "recovery_s": round(min(later), 2) if later else None,
        "last_end_s": round(last_end_s, 2),
        "database": options["database"],
        **machine(),
    }
