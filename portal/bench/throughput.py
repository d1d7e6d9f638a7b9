"""How many short jobs a second, from the first submit to the last end recorded."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

import httpx

from portal.bench.figures import MOST_NODES, client, machine, nodes_of, spec, tell
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
        tell(f"submitting {count} jobs")
        began = time.monotonic()
        for batch in _batches(count, BULK if options["bulk"] else 1):
            _submit(api, batch)
        submitted_s = time.monotonic() - began
        _wait_for_all(api)
        took_s = time.monotonic() - began
        succeeded = sum(1 for _ in _jobs(api, "succeeded"))
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
        **machine(),
    }


def _batches(count: int, size: int) -> Iterator[list[dict[str, Any]]]:
    for first in range(0, count, size):
        numbers = range(first, min(count, first + size))
        yield [spec(f"bench-{number}", command=["/bin/true"]) for number in numbers]


def _submit(api: httpx.Client, batch: list[dict[str, Any]]) -> None:
    if len(batch) == 1:
        api.post("/jobs/", json=batch[0]).raise_for_status()
    else:
        api.post("/jobs/bulk/", json={"jobs": batch}).raise_for_status()


def _wait_for_all(api: httpx.Client) -> None:
    deadline = time.monotonic() + PATIENCE_S
    said_at = 0.0
    # Asking for one job costs the portal little: what is measured is not the asking.
    while next(_jobs(api, UNFINISHED, page=1), None) is not None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"jobs were still unfinished after {PATIENCE_S:.0f} s")
        if time.monotonic() - said_at > 10:
            said_at = time.monotonic()
            tell("jobs are still unfinished")
        time.sleep(0.1)


def _jobs(api: httpx.Client, states: str, page: int = 200) -> Iterator[dict[str, Any]]:
    cursor: dict[str, Any] = {}
    while True:
        reply = api.get("/jobs/", params={"state": states, "limit": page, **cursor})
        found = reply.raise_for_status().json()
        yield from found["items"]
        if not found["next_cursor"]:
            return
        cursor = {"cursor": found["next_cursor"]}
