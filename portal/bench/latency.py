"""From a submit over the API to the job's first instruction, on an idle cluster."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

import httpx

from portal.bench.figures import MOST_NODES, client, machine, nodes_of, percentile, spec, tell
from portal.embedded.temporary import temporary_stack

SCRIPT = "date +%s%N"
WARM_UP = 3


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench latency`."""
    parser.add_argument("--jobs", type=int, default=60, help="default %(default)s")
    parser.add_argument(
        "--nodes",
        type=int,
        default=4,
        help=f"agents, each a process of its own, 1 to {MOST_NODES}; default %(default)s",
    )


def run(options: dict[str, Any]) -> dict[str, Any]:
    """One job after another; each prints its own clock as its first instruction."""
    nodes = nodes_of(options["nodes"], 8)
    with temporary_stack(tell=tell, nodes=nodes) as stack, client(stack) as api:
        for _ in range(WARM_UP):
            _measure(api)
        tell(f"{options['jobs']} jobs, one after another")
        took_ms = [_measure(api) for _ in range(options["jobs"])]
    return {
        "bench": "latency",
        "jobs": options["jobs"],
        "nodes": options["nodes"],
        "p50_ms": percentile(took_ms, 0.50),
        "p95_ms": percentile(took_ms, 0.95),
        "p99_ms": percentile(took_ms, 0.99),
        **machine(),
    }


def _measure(api: httpx.Client) -> float:
    """Milliseconds from the moment before the call to the job's own clock; both on this machine."""
    began_ns = time.time_ns()
    reply = api.post("/jobs/", json=spec("bench-latency", script=SCRIPT))
    reply.raise_for_status()
    job_id = reply.json()["id"]
    api.get(f"/jobs/{job_id}/", params={"wait": 60}).raise_for_status()
    lines = api.get(f"/jobs/{job_id}/log/").raise_for_status().json()["lines"]
    return (int(lines[0]) - began_ns) / 1e6
