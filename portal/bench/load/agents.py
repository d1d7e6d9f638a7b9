"""Hundreds of simulated agents that renew beside running jobs: how long the server takes."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser
from typing import Any

import httpx

from portal.bench.apart import python
from portal.bench.figures import client, machine, nodes_of, percentile, spec, tell
from portal.bench.load.effort import Effort
from portal.bench.load.fleet import Fleet, at_work, enrol_agents
from portal.bench.load.throughput import jobs_in
from portal.embedded.stack import Stack
from portal.embedded.temporary import temporary_stack
from scheduler.agent.config import DEFAULT_SIMULATED_MODEL

MOST = {"agents": 10_000, "seconds": 3_600, "every": 3_600}
JOB_S = 2
REAL_GPUS = 8
EXTRAPOLATED = 2_000
# How many of the agents were silent or given up since then, also where they came back, or are now.
READ = """
import datetime, sys, django
django.setup()
from scheduler.models import Node, NodeEvent
from scheduler.states import NodeState
since = datetime.datetime.fromtimestamp(float(sys.argv[1]), datetime.UTC)
gone = NodeEvent.objects.filter(
    at__gte=since, to_state__in=(NodeState.SILENT, NodeState.LOST), node__name__startswith="sim-"
)
away = Node.objects.filter(name__startswith="sim-").exclude(state=NodeState.READY)
print(len({*gone.values_list("node_id", flat=True), *away.values_list("id", flat=True)}))
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench agents`."""
    parser.add_argument("--agents", type=int, default=200, help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=60, help="default %(default)s")
    parser.add_argument(
        "--every", type=float, default=10.0, help="seconds between renewals; default %(default)s"
    )


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Enrol the agents; let them renew, first alone, then beside a node full of short jobs.

    Alone gives the computing of one renewal with its share of the held call, from which
    `cores_for_2000` follows: agents / interval x computing. `silent`: agents that the server took
    for silent although they renewed.
    """
    count, every_s, seconds = options["agents"], options["every"], options["seconds"]
    nodes = nodes_of(1, REAL_GPUS)
    with temporary_stack(tell=tell, nodes=nodes) as stack, client(stack) as api:
        tell(f"enrolling {count} agents")
        tokens = enrol_agents(stack, count)
        up_at, alone, busy = asyncio.run(_renew(stack, api, tokens, every_s, seconds))
        silent = int(python(dict(stack.environment()), "-c", READ, str(up_at)))
        done = sum(1 for _ in jobs_in(api, "succeeded"))
    per_renewal_ms = alone[1] / max(1, len(alone[0].took_ms))
    fleet = busy[0]
    return {
        "bench": "agents",
        "agents": count,
        "every_s": every_s,
        "renewals": len(fleet.took_ms),
        "failed": alone[0].failed + fleet.failed,
        "silent": silent,
        "p50_ms": percentile(fleet.took_ms, 0.50),
        "p95_ms": percentile(fleet.took_ms, 0.95),
        "p99_ms": percentile(fleet.took_ms, 0.99),
        "alone_p95_ms": percentile(alone[0].took_ms, 0.95),
        "jobs_beside": done,
        "web_ms_per_renewal": round(per_renewal_ms, 2),
        f"cores_for_{EXTRAPOLATED}": round(EXTRAPOLATED / every_s * per_renewal_ms / 1000, 2),
        **machine(),
    }


async def _renew(
    stack: Stack, api: httpx.Client, tokens: list[str], every_s: float, seconds: int
) -> tuple[float, tuple[Fleet, float], tuple[Fleet, float]]:
    """When all were up, as the clock has it; then what the agents saw and the milliseconds the web
    server computed: alone, then with jobs."""
    phases = []
    async with at_work(stack.address, tokens, every_s) as agents:
        tell("all agents say hello and hold a call")
        await asyncio.sleep(every_s)
        up_at = time.time()
        for words, has_jobs in (("alone", False), ("beside running jobs", True)):
            tell(f"renewing for {seconds} s, {words}")
            fleet = Fleet()
            for agent in agents:
                agent.fleet = fleet
            effort = Effort(stack)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                if has_jobs:
                    await asyncio.to_thread(_submit, api)
                await asyncio.sleep(JOB_S)
            phases.append((fleet, effort.per_job_ms(1)["web"]))
    return up_at, phases[0], phases[1]


def _submit(api: httpx.Client) -> None:
    # The simulated nodes run nothing: jobs ask for the cards of the real one.
    wanted = {"command": ["sleep", str(JOB_S)], "gpu_model": DEFAULT_SIMULATED_MODEL}
    jobs = [spec(f"beside-{number}", **wanted) for number in range(REAL_GPUS)]
    api.post("/jobs/bulk/", json={"jobs": jobs}).raise_for_status()
