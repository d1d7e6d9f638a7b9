"""Simulated nodes that run what they are told by letting time go by; they speak the protocol."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from portal.bench.load.calling import Caller, CallFailed, callers
from scheduler.agent.client import Backoff
from scheduler.agent.gpus.simulated import SimulatedGpus
from scheduler.states import AttemptState, EndReason
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import (
    AGENT_VERSION,
    PROTOCOL,
    Assignment,
    AttemptReport,
    EnrolReply,
    EnrolRequest,
    HostFacts,
    SyncReply,
    SyncRequest,
)

MODEL = "NVIDIA A100-SXM4-80GB"
HOLD_S = 20.0
# As the real agent rests between two calls, so that what happens meanwhile shares the next one.
MOST_REST_S = 0.25
LEAST_REST_S = 0.02
# Hundreds of nodes that say hello at once would wait for each other longer than a call may take.
_HELLOS_A_SECOND = 100
_HELLO_S = 300.0
_RETRY_CAP_S = 15.0
_PORT = 29_500
# Of cards in one node.
MOST_CARDS = 120


@dataclass(slots=True)
class Seen:
    """What the nodes saw, by the jobs' names. Seconds since `began`; `ran_s` of who ended well.

    Of a gang its first rank tells how it ended; `begun_s` is when the first of its ranks began.
    """

    takes_s: dict[str, float]
    began: float = 0.0
    begun_s: dict[str, float] = field(default_factory=dict)
    ran_s: dict[str, float] = field(default_factory=dict)
    stopped: int = 0


def enrol(
    admin: httpx.Client, pool: str, cards: int, node_cards: int = MOST_CARDS
) -> dict[str, str]:
    """New nodes in `pool` with so many cards together and each: the tokens by name."""
    secrets = {}
    for number, first in enumerate(range(0, cards, node_cards)):
        name = f"{pool}-{number}"
        asked = admin.post("/api/v1/nodes/tokens/", json={"pool": pool}).raise_for_status()
        count = min(node_cards, cards - first)
        size = HostFacts(4 * count, 1024 * count, 65_536, "127.0.0.1")
        request = EnrolRequest(
            token=asked.json()["token"],
            name=name,
            protocol=PROTOCOL,
            agent_version=AGENT_VERSION,
            boot_id=name,
            host=size,
            devices=SimulatedGpus(name, count, MODEL).inventory(),
        )
        reply = admin.post("/api/agent/v1/enrol", content=encode(request)).raise_for_status()
        secrets[name] = decode(EnrolReply, reply.content).node_token
    return secrets


class Crew:
    """All nodes of a benchmark, from `async with` to its end; all have been answered as it begins.

    A node that has enrolled and does not call would be silent before the last one has enrolled.
    """

    def __init__(self, address: str, tokens: dict[str, str], seen: Seen) -> None:
        self._callers = callers(address, tokens.values())
        self._tokens, self._seen = tokens, seen
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Crew:
        clients = await self._callers.__aenter__()
        nodes = [
            _Node(caller, name, self._seen)
            for caller, name in zip(clients, self._tokens, strict=True)
        ]
        for number, node in enumerate(nodes):
            work = (node.hold(number / _HELLOS_A_SECOND), node.pulse())
            self._tasks += map(asyncio.create_task, work)
        async with asyncio.timeout(_HELLO_S):
            await asyncio.gather(*(node.was_answered.wait() for node in nodes))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._callers.__aexit__(None, None, None)


class _Node:
    """One node: a call that is held, and one of its own whenever something begins or ends."""

    def __init__(self, caller: Caller, name: str, seen: Seen) -> None:
        self._caller, self._name, self._seen = caller, name, seen
        self._revision = 0
        self._reports: dict[int, AttemptReport] = {}
        self._jobs: dict[int, str] = {}
        self._told: dict[int, AttemptState] = {}
        self._gone: set[int] = set()
        self._news = asyncio.Event()
        self.was_answered = asyncio.Event()

    async def hold(self, after_s: float) -> None:
        """Say hello after so many seconds, then hold a call open, again and again."""
        backoff, hold_s = Backoff(_RETRY_CAP_S), 0.0
        await asyncio.sleep(after_s)
        while True:
            try:
                await self._sync(hold_s)
                backoff.reset()
                hold_s = HOLD_S
                self.was_answered.set()
            except CallFailed:
                await asyncio.sleep(backoff.next_s())

    async def pulse(self) -> None:
        """Tell what is new; rest as long as it took to be heard."""
        backoff = Backoff(_RETRY_CAP_S)
        while True:
            await self._news.wait()
            self._news.clear()
            began = time.monotonic()
            try:
                await self._sync(0.0)
                backoff.reset()
            except CallFailed:
                self._news.set()
                await asyncio.sleep(backoff.next_s())
            took_s = time.monotonic() - began
            await asyncio.sleep(min(MOST_REST_S, max(LEAST_REST_S, took_s)))

    async def _sync(self, hold_s: float) -> None:
        reports = tuple(self._reports.values())
        request = SyncRequest(
            protocol=PROTOCOL,
            agent_version=AGENT_VERSION,
            agent_id=self._name,
            boot_id=self._name,
            seen_revision=self._revision,
            hold_s=hold_s,
            sent_at=time.time(),
            reports=reports,
            takes_kept=True,
        )
        told = {report.fence: report.state for report in reports}
        if hold_s:
            # What rides on a held call needs none of its own; if it fails, the next one has it.
            self._told |= told
        reply = decode(SyncReply, await self._caller.sync(encode(request)))
        if not hold_s:
            self._told |= told
        for fence in reply.forget:
            self._reports.pop(fence, None)
            self._told.pop(fence, None)
            self._gone.add(fence)
        if reply.revision < self._revision:
            return
        self._revision = reply.revision
        for assignment in reply.assignments:
            self._bring_to(assignment)
        if not hold_s and any(
            self._told.get(one.fence) != one.state for one in self._reports.values()
        ):
            self._news.set()

    def _bring_to(self, assignment: Assignment) -> None:
        fence = assignment.fence
        known = self._reports.get(fence)
        if fence in self._gone:
            return
        if known is None:
            name = assignment.job_name
            self._jobs[fence] = name
            now = time.monotonic() - self._seen.began
            self._seen.begun_s.setdefault(name, now)
            running: dict[str, Any] = {"state": AttemptState.RUNNING, "started_at": time.time()}
            if assignment.rank == 0 and len(assignment.addresses) > 1:
                # The other ranks are told of nothing before this.
                running["master_port"] = _PORT
            known = AttemptReport(fence=fence, rank=assignment.rank, **running)
            self._reports[fence] = known
            asyncio.get_running_loop().call_later(self._seen.takes_s[name], self._end, fence, None)
        if assignment.stop is not None:
            self._end(fence, assignment.stop.reason)

    def _end(self, fence: int, reason: EndReason | None) -> None:
        report = self._reports.get(fence)
        if report is None or report.state is AttemptState.ENDED:
            return
        now = time.time()
        name = self._jobs.pop(fence)
        if report.rank == 0 and reason is None:
            self._seen.ran_s[name] = now - (report.started_at or now)
        elif report.rank == 0:
            self._seen.stopped += 1
        self._reports[fence] = replace(
            report,
            state=AttemptState.ENDED,
            ended_at=now,
            exit_code=0 if reason is None else None,
            end_reason=reason or EndReason.COMPLETED,
        )
        self._news.set()
