"""Kill the whole control plane after the last accepted job: what is lost, what runs twice."""

from __future__ import annotations

import signal
import time
from argparse import ArgumentParser
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from portal.bench.figures import MOST_NODES, client, machine, nodes_of, spec, tell
from portal.bench.outages import kill_control_plane, restart, running_agents
from portal.embedded.temporary import temporary_stack

MOST = {"jobs": 100_000, "nodes": MOST_NODES, "gpus_per_node": 64, "seconds": 300}
PATIENCE_S = 600.0
# The witness is a file of each job's own, outside the product; whoever runs the job again may
# be another user and appends to the same file.
SCRIPT = """umask 0
echo "$TRAINYARD_JOB_ID $TRAINYARD_ATTEMPT $(date +%s%N)" >> {folder}/$TRAINYARD_JOB_ID
sleep {seconds}
"""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job as the job itself wrote it down; `at_s` is the epoch."""

    job: int
    attempt: int
    at_s: float


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
    parser.add_argument("--agents", action="store_true", help="kill the nodes' agents as well")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Submit, kill after the last 2xx, start again, wait for all; then ask the witnesses.

    lost: acknowledged jobs that the portal does not know afterwards, that did not succeed, or
    that never started. doubled: jobs that started more than once, whatever the attempt.
    """
    nodes = nodes_of(options["nodes"], options["gpus_per_node"])
    with (
        temporary_stack(tell=tell, nodes=nodes, runs_agents=False) as stack,
        running_agents(stack, nodes) as agents,
    ):
        folder = _witness_folder(stack.places.state.parent)
        script = SCRIPT.format(folder=folder, seconds=options["seconds"])
        with client(stack) as api:
            # Until a job has run through, the agents may not have introduced themselves.
            warm_up = api.post("/jobs/", json=spec("bench-warm-up", script="true"))
            _wait_for_all(api, [int(warm_up.raise_for_status().json()["id"])])
            tell(f"submitting {options['jobs']} jobs, one after another")
            acknowledged = [_submit(api, number, script) for number in range(options["jobs"])]
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
            states = _wait_for_all(api, acknowledged)
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
        **machine(),
    }


def verdict(
    acknowledged: Collection[int], states: dict[int, str], starts: Iterable[Start]
) -> dict[str, int]:
    """How many jobs were lost, started twice, or started without having been acknowledged."""
    times: dict[int, int] = {}
    for start in starts:
        times[start.job] = times.get(start.job, 0) + 1
    ran = {job for job in times if states.get(job) == "succeeded"}
    return {
        "lost": len(set(acknowledged) - ran) + len(acknowledged) - len(set(acknowledged)),
        "doubled": sum(1 for count in times.values() if count > 1),
        "unasked": len(times.keys() - set(acknowledged)),
    }


def read_starts(folder: Path) -> list[Start]:
    """All starts that the jobs wrote down, in no order."""
    starts = []
    for path in folder.iterdir():
        for line in path.read_text(encoding="ascii").splitlines():
            job, attempt, at_ns = line.split()
            starts.append(Start(int(job), int(attempt), int(at_ns) / 1e9))
    return starts


def _witness_folder(parent: Path) -> Path:
    """Open to the users that jobs run as. Not sticky: there no user may append to another's."""
    folder = parent / "witness"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def _submit(api: httpx.Client, number: int, script: str) -> int:
    reply = api.post("/jobs/", json=spec(f"bench-kill-{number}", script=script))
    return int(reply.raise_for_status().json()["id"])


def _wait_for_all(api: httpx.Client, jobs: Iterable[int]) -> dict[int, str]:
    """The final state of each job; `unknown` when the portal does not have it."""
    deadline = time.monotonic() + PATIENCE_S
    states = {}
    for job in jobs:
        while True:
            reply = api.get(f"/jobs/{job}/", params={"wait": 20})
            if reply.status_code == httpx.codes.NOT_FOUND:
                states[job] = "unknown"
                break
            shown = reply.raise_for_status().json()
            states[job] = shown["state"]
            if shown["is_final"]:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} is still {shown['state']}: {shown['wait']}")
    return states
