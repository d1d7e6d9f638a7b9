"""How many short jobs a second, from the first submit to the last end recorded."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

import httpx

from portal.bench.figures import MOST_NODES, client, machine, nodes_of, spec, tell
from portal.bench.load.effort import Effort
from portal.bench.load.turns import read_turns
from portal.embedded.temporary import temporary_stack

BULK = 100
UNFINISHED = "held,queued,starting,running,stopping"
PATIENCE_S = 1800.0


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench throughput`."""
    parser.add_argument("--jobs", type=int, default=2000, help="default %(default)s")
    parser.add_argument(
        "--nodes", type=int, default=4, help=f"1 to {MOST_NODES}; default %(default)s"
    )
    parser.add_argument("--gpus-per-node", type=int, default=8, help="default %(default)s")
    parser.add_argument("--bulk", action="store_true", help="submit a hundred with each call")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Submit all, wait for all, count those that succeeded."""
    count = options["jobs"]
    nodes = nodes_of(options["nodes"], options["gpus_per_node"])
    with temporary_stack(tell=tell, nodes=nodes) as stack, client(stack) as api:
        tell("a job for every GPU, so that every agent and connection is up")
        for batch in _batches("warm", options["nodes"] * options["gpus_per_node"], BULK):
            last = _submit(api, batch)
        _wait_for_all(api, last)
        tell(f"submitting {count} jobs")
        began, effort = time.monotonic(), Effort(stack)
        for batch in _batches("bench", count, BULK if options["bulk"] else 1):
            last = _submit(api, batch)
        submitted_s = time.monotonic() - began
        _wait_for_all(api, last)
        took_s = time.monotonic() - began
        computing = effort.per_job_ms(count)
        succeeded = sum(one["name"].startswith("bench-") for one in jobs_in(api, "succeeded"))
        turns = read_turns(stack, "bench-", took_s)
    return {
        "bench": "throughput",
        "jobs": count,
        "succeeded": succeeded,
        "nodes": options["nodes"],
        "gpus_per_node": options["gpus_per_node"],
        "is_bulk": options["bulk"],
        "jobs_per_s": round(count / took_s, 1),
        "submit_per_s": round(count / submitted_s, 1),
        "wall_s": round(took_s, 1),
        "computing_ms_per_job": computing,
        **turns,
        **machine(),
    }


def _batches(name: str, count: int, size: int) -> Iterator[list[dict[str, Any]]]:
    for first in range(0, count, size):
        numbers = range(first, min(count, first + size))
        yield [spec(f"{name}-{number}", command=["/bin/true"]) for number in numbers]


def _submit(api: httpx.Client, batch: list[dict[str, Any]]) -> int:
    """Returns the number of the last job."""
    if len(batch) == 1:
        return int(api.post("/jobs/", json=batch[0]).raise_for_status().json()["id"])
    reply = api.post("/jobs/bulk/", json={"jobs": batch})
    return int(reply.raise_for_status().json()["ids"][-1])


def _wait_for_all(api: httpx.Client, last: int) -> None:
    """Until nothing is unfinished: the last job first, whose held call costs next to nothing."""
    deadline = time.monotonic() + PATIENCE_S
    while not api.get(f"/jobs/{last}/", params={"wait": 20}).raise_for_status().json()["is_final"]:
        _give_up_after(deadline)
    while next(jobs_in(api, UNFINISHED, page=1), None) is not None:
        _give_up_after(deadline)
        time.sleep(0.05)


def _give_up_after(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"jobs were still unfinished after {PATIENCE_S:.0f} s")


def jobs_in(api: httpx.Client, states: str, page: int = 200) -> Iterator[dict[str, Any]]:
    """All jobs in these states, newest first, however many pages they fill."""
    cursor: dict[str, Any] = {}
    while True:
        reply = api.get("/jobs/", params={"state": states, "limit": page, **cursor})
        found = reply.raise_for_status().json()
        yield from found["items"]
        if not found["next_cursor"]:
            return
        cursor = {"cursor": found["next_cursor"]}
