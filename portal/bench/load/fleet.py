"""Simulated agents: they enrol, hold a call, renew, and run nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import httpx

from portal.bench.figures import POOL
from portal.bench.load.calling import Caller, CallFailed, callers
from portal.embedded.stack import Stack
from scheduler.agent.client import Backoff
from scheduler.agent.gpus.simulated import SimulatedGpus
from scheduler.wire.codec import WireError, decode, encode
from scheduler.wire.messages import (
    AGENT_VERSION,
    PROTOCOL,
    EnrolReply,
    EnrolRequest,
    HostFacts,
    SyncReply,
    SyncRequest,
)
from scheduler.wire.readings import HostSample

MODEL = "NVIDIA A100-SXM4-80GB"
HOLD_S = 20.0
_RETRY_CAP_S = 15.0


@dataclass(slots=True)
class Fleet:
    """What all simulated agents saw: milliseconds of each renewal, and how many went wrong.

    `heard`: when each agent got its first answer since this was made, monotonic.
    """

    took_ms: list[float] = field(default_factory=list)
    failed: int = 0
    heard: dict[str, float] = field(default_factory=dict)


def enrol_agents(stack: Stack, count: int) -> list[str]:
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


class SimulatedAgent:
    """One agent: a call that is held, and a renewal every few seconds.

    What fails is tried again as real agents do, after a while that the dice choose.
    """

    def __init__(self, caller: Caller, name: str, every_s: float) -> None:
        self.fleet = Fleet()
        self._caller, self._name, self._every_s = caller, name, every_s
        self._revision = 0

    async def hold(self) -> None:
        """Hold a call open, again and again."""
        backoff = Backoff(_RETRY_CAP_S)
        while True:
            if await self._sync(HOLD_S):
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next_s())

    async def pulse(self) -> None:
        """Renew; agents begin apart, and each call a little sooner or later, as real ones do."""
        backoff = Backoff(min(_RETRY_CAP_S, self._every_s))
        await asyncio.sleep(random.uniform(0, self._every_s))
        while True:
            began = time.perf_counter()
            if await self._sync(0.0):
                self.fleet.took_ms.append((time.perf_counter() - began) * 1000)
                backoff.reset()
                await asyncio.sleep(self._every_s * random.uniform(0.9, 1.1))
            else:
                await asyncio.sleep(backoff.next_s())

    async def _sync(self, hold_s: float) -> bool:
        """One call; whether it was answered."""
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
        try:
            reply = decode(SyncReply, await self._caller.sync(encode(request)))
        except (CallFailed, WireError):
            self.fleet.failed += 1
            return False
        self._revision = reply.revision
        self.fleet.heard.setdefault(self._name, time.monotonic())
        return True


@contextlib.asynccontextmanager
async def at_work(
    address: str, secrets: Sequence[str], every_s: float
) -> AsyncIterator[list[SimulatedAgent]]:
    """The agents of these node tokens, calling the portal at this address meanwhile."""
    async with callers(address, secrets) as made:
        agents = [
            SimulatedAgent(caller, f"sim-{number}", every_s) for number, caller in enumerate(made)
        ]
        tasks = [asyncio.create_task(work()) for one in agents for work in (one.hold, one.pulse)]
        try:
            yield agents
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
