"""Hundreds of simulated agents that renew beside running jobs: how long the server takes."""

from __future__ import annotations

import asyncio
import random
import time
from argparse import ArgumentParser
from dataclasses import dataclass, field
from typing import Any

import httpx

from portal.bench.figures import POOL, client, machine, nodes_of, percentile, spec, tell
from portal.bench.load.effort import Effort
from portal.embedded.stack import Stack
from portal.embedded.temporary import temporary_stack
from scheduler.agent.config import DEFAULT_SIMULATED_MODEL
from scheduler.agent.gpus.simulated import SimulatedGpus
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import (
    AGENT_VERSION,
    PROTOCOL,
    EnrolReply,
    EnrolRequest,
    HostFacts,
    HostSample,
    SyncReply,
    SyncRequest,
)

MOST = {"agents": 10_000, "seconds": 3_600, "every": 3_600}
MODEL = "NVIDIA A100-SXM4-80GB"
HOLD_S = 20.0
JOB_S = 2
REAL_GPUS = 8
EXTRAPOLATED = 2_000


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench agents`."""
    parser.add_argument("--agents", type=int, default=200, help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=60, help="default %(default)s")
    parser.add_argument(
        "--every", type=float, default=10.0, help="seconds between renewals; default %(default)s"
    )


@dataclass(slots=True)
class Fleet:
    """What all simulated agents saw: milliseconds of each renewal, and how many went wrong."""

    took_ms: list[float] = field(default_factory=list)
    failed: int = 0


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
        tokens = _enrol(stack, count)
        alone, busy = asyncio.run(_renew(stack, api, tokens, every_s, seconds))
        silent = _count_not_ready(stack, count)
        done = api.get("/jobs/", params={"state": "succeeded", "limit": 200}).json()["items"]
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
        "jobs_beside": len(done),
        "web_ms_per_renewal": round(per_renewal_ms, 2),
        f"cores_for_{EXTRAPOLATED}": round(EXTRAPOLATED / every_s * per_renewal_ms / 1000, 2),
        **machine(),
    }


def _enrol(stack: Stack, count: int) -> list[str]:
    """Node tokens of new nodes; each with eight cards."""
    head = {"Authorization": f"Bearer {stack.api_tokens['admin']}"}
    facts = HostFacts(cpus=8, memory_mib=65_536, scratch_mib=65_536, address="127.0.0.1")
    secrets = []
    with httpx.Client(base_url=stack.address, headers=head, timeout=60) as admin:
        for number in range(count):
            name = f"sim-{number}"
            asked = admin.post("/api/v1/nodes/tokens/", json={"pool": POOL}).raise_for_status()
            request = EnrolRequest(
                token=asked.json()["token"],
                name=name,
                protocol=PROTOCOL,
                agent_version=AGENT_VERSION,
                boot_id=name,
                host=facts,
                devices=SimulatedGpus(name, 8, MODEL).inventory(),
            )
            reply = admin.post("/api/agent/v1/enrol", content=encode(request)).raise_for_status()
            secrets.append(decode(EnrolReply, reply.content).node_token)
    return secrets


async def _renew(
    stack: Stack, api: httpx.Client, tokens: list[str], every_s: float, seconds: int
) -> tuple[tuple[Fleet, float], tuple[Fleet, float]]:
    """What the agents saw and the milliseconds the web server computed: alone, then with jobs."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    phases = []
    base = f"{stack.address}/api/agent/v1"
    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=60) as http:
        fleet = Fleet()
        agents = [_Agent(http, secret, f"sim-{n}", every_s) for n, secret in enumerate(tokens)]
        holds = [asyncio.create_task(agent.hold()) for agent in agents]
        pulses = [asyncio.create_task(agent.pulse()) for agent in agents]
        tell("all agents say hello and hold a call")
        await asyncio.sleep(every_s)
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
        for task in (*holds, *pulses):
            task.cancel()
    return phases[0], phases[1]


def _submit(api: httpx.Client) -> None:
    # The simulated nodes run nothing: jobs ask for the cards of the real one.
    wanted = {"command": ["sleep", str(JOB_S)], "gpu_model": DEFAULT_SIMULATED_MODEL}
    jobs = [spec(f"beside-{number}", **wanted) for number in range(REAL_GPUS)]
    api.post("/jobs/bulk/", json={"jobs": jobs}).raise_for_status()


def _count_not_ready(stack: Stack, count: int) -> int:
    head = {"Authorization": f"Bearer {stack.api_tokens['admin']}"}
    with httpx.Client(base_url=f"{stack.address}/api/v1", headers=head, timeout=60) as admin:
        states = []
        for number in range(count):
            states.append(admin.get(f"/nodes/sim-{number}/").raise_for_status().json())
    return sum(one["state"] != "ready" for one in states)


class _Agent:
    """One simulated agent: a call that is held, and a renewal every few seconds."""

    def __init__(self, http: httpx.AsyncClient, secret: str, name: str, every_s: float) -> None:
        self.fleet = Fleet()
        self._http, self._name, self._every_s = http, name, every_s
        self._head = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self._revision = 0

    async def hold(self) -> None:
        """Hold a call open, again and again."""
        while True:
            try:
                await self._sync(HOLD_S)
            except httpx.HTTPError:
                self.fleet.failed += 1
                await asyncio.sleep(1)

    async def pulse(self) -> None:
        """Renew; agents begin apart, and each call a little sooner or later, as real ones do."""
        await asyncio.sleep(random.uniform(0, self._every_s))
        while True:
            began = time.perf_counter()
            try:
                await self._sync(0.0)
                self.fleet.took_ms.append((time.perf_counter() - began) * 1000)
            except httpx.HTTPError:
                self.fleet.failed += 1
            await asyncio.sleep(self._every_s * random.uniform(0.9, 1.1))

    async def _sync(self, hold_s: float) -> None:
        now = time.time()
        request = SyncRequest(
            protocol=PROTOCOL,
            agent_version=AGENT_VERSION,
            agent_id=self._name,
            boot_id=self._name,
            seen_revision=self._revision,
            hold_s=hold_s,
            sent_at=now,
            host_sample=None if hold_s else HostSample(now, 5.0, 1_024, 60_000),
        )
        answer = await self._http.post("/sync", content=encode(request), headers=self._head)
        self._revision = decode(SyncReply, answer.raise_for_status().content).revision
