"""Many browsers on one live log: how long a line takes, and whether any goes missing."""

from __future__ import annotations

import asyncio
import json
import re
import time
from argparse import ArgumentParser
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from portal.bench.figures import client, machine, nodes_of, percentile, spec, tell
from portal.embedded.programs import WEB
from portal.embedded.stack import Stack
from portal.embedded.temporary import temporary_stack

MOST = {"viewers": 2_000, "lines_per_second": 1_000, "seconds": 3_600}
# Those of the demonstration who may read the log of the benchmark's project.
READERS = ("admin", "alice", "bob", "lena", "olga")
PATIENCE_S = 60.0
CONNECT_AT_ONCE = 20
# The job waits for all viewers, so that nobody is late because of the clock.
SCRIPT = """#!/usr/bin/env python3
import os, time
while not os.path.exists({go!r}):
    time.sleep(0.02)
began = time.monotonic()
for number in range(1, {lines} + 1):
    time.sleep(max(0.0, began + number / {rate} - time.monotonic()))
    print(number, time.time_ns(), flush=True)
"""
_ROW = re.compile(r'id="L(\d+)"[^<]*<a[^<]*</a><span>(\d+) (\d+)</span>')
_TOPIC = re.compile(r'data-log-topic="(log:\d+:\d+)"')
_CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@dataclass(slots=True)
class Seen:
    """What one viewer received: milliseconds from write to frame for each line, in order."""

    took_ms: dict[int, float] = field(default_factory=dict)
    frames: int = 0
    repeated: int = 0
    misplaced: int = 0
    last: int = 0
    is_complete: bool = False

    def take(self, frame: dict[str, Any], at_ns: int) -> None:
        """Count the lines of a frame that arrived at `at_ns` of the epoch."""
        self.frames += 1
        self.is_complete = bool(frame["complete"])
        for shown, number, written_ns in _ROW.findall(frame["html"]):
            line = int(number)
            if line in self.took_ms:
                self.repeated += 1
                continue
            # The number beside the line is the line's, and no line comes before an earlier one.
            self.misplaced += shown != number or line < self.last
            self.last = line
            self.took_ms[line] = (at_ns - int(written_ns)) / 1e6


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench logs`."""
    parser.add_argument(
        "--viewers", type=int, default=200, help=f"1 to {MOST['viewers']}; default %(default)s"
    )
    parser.add_argument("--lines-per-second", type=int, default=20, help="default %(default)s")
    parser.add_argument(
        "--seconds", type=int, default=20, help="how long the job prints; default %(default)s"
    )


def run(options: dict[str, Any]) -> dict[str, Any]:
    """One job prints its clock; each viewer compares it with its own. All on this machine."""
    rate, count = options["lines_per_second"], options["viewers"]
    lines = rate * options["seconds"]
    crowd = {"TRAINYARD_SOCKETS_AT_ONCE": "0"}
    stacked = temporary_stack(tell=tell, nodes=nodes_of(1, 1), environment=crowd)
    with stacked as stack, client(stack) as api:
        cookies = [signed_in(stack, person) for person in READERS]
        go = stack.places.state.parent / "go"
        script = SCRIPT.format(go=str(go), lines=lines, rate=rate)
        reply = api.post("/jobs/", json=spec("bench-logs", script=script))
        job = int(reply.raise_for_status().json()["id"])
        topics = [_topic_of(stack, cookies[0], job), f"job:{job}"]
        tell(f"{count} viewers, {rate} lines a second for {options['seconds']} s")
        web = psutil.Process(stack.supervisor.pid_of(WEB))
        shared = [cookies[n % len(cookies)] for n in range(count)]
        seen, web_cpu_share = asyncio.run(_watch(stack.address, topics, shared, go, web))
    took_ms = [ms for one in seen for ms in one.took_ms.values()]
    return {
        "bench": "logs",
        "viewers": count,
        "lines_per_second": rate,
        "lines": lines,
        "p50_ms": percentile(took_ms, 0.50),
        "p95_ms": percentile(took_ms, 0.95),
        "p99_ms": percentile(took_ms, 0.99),
        "max_ms": percentile(took_ms, 1.0),
        "lost": sum(lines - len(one.took_ms) for one in seen),
        "repeated": sum(one.repeated for one in seen),
        "misplaced": sum(one.misplaced for one in seen),
        "frames_per_viewer": round(sum(one.frames for one in seen) / count, 1),
        "web_cpu_share": round(web_cpu_share, 2),
        **machine(),
    }


def signed_in(stack: Stack, username: str) -> str:
    """The Cookie header of somebody who has just signed in on the page."""
    password = next(each.password for each in stack.accounts if each.username == username)
    with httpx.Client(base_url=stack.address, timeout=60) as browser:
        form = _CSRF.search(browser.get("/accounts/login/").raise_for_status().text)
        assert form is not None, "the sign-in page has no form"
        sent = {"login": username, "password": password, "csrfmiddlewaretoken": form[1]}
        reply = browser.post("/accounts/login/", data=sent, headers={"Referer": stack.address})
        if reply.status_code != httpx.codes.FOUND:
            raise TimeoutError(f"{username} could not sign in: {reply.status_code}")
        return "; ".join(f"{name}={value}" for name, value in browser.cookies.items())


def _topic_of(stack: Stack, cookie: str, job: int) -> str:
    """The topic that the log's page names, once the job has a log."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        reply = httpx.get(
            f"{stack.address}/jobs/{job}/logs/", headers={"Cookie": cookie}, timeout=60
        )
        found = _TOPIC.search(reply.raise_for_status().text)
        if found:
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"job {job} had no log after {PATIENCE_S:.0f} s")


async def _watch(
    address: str, topics: list[str], cookies: list[str], go: Path, web: psutil.Process
) -> tuple[list[Seen], float]:
    """Connect everybody, let the job begin, read to the end of the log.

    Also returns how many processors the portal was busy with meanwhile.
    """
    gate = asyncio.Semaphore(CONNECT_AT_ONCE)
    sockets = await asyncio.gather(*(_join(address, topics, cookie, gate) for cookie in cookies))
    used_s, began = sum(web.cpu_times()[:2]), time.monotonic()
    go.touch()
    seen = await asyncio.gather(*(_read(socket, topics[0]) for socket in sockets))
    used_s, took_s = sum(web.cpu_times()[:2]) - used_s, time.monotonic() - began
    await asyncio.gather(*(socket.close() for socket in sockets))
    return seen, used_s / took_s


async def _join(
    address: str, topics: list[str], cookie: str, gate: asyncio.Semaphore
) -> ClientConnection:
    """A socket that watches what a log's page watches, the log from its first line on."""
    log, job = topics
    async with gate:
        socket = await connect(
            f"{address.replace('http', 'ws', 1)}/ws/",
            origin=Origin(address),
            additional_headers={"Cookie": cookie},
            open_timeout=PATIENCE_S,
            max_size=None,
        )
        wishes: dict[str, Any] = {"subscribe": [{"topic": log, "after": 0}, job]}
        await socket.send(json.dumps(wishes))
        # The job's topic greets, and topics are followed in order.
        async with asyncio.timeout(PATIENCE_S):
            frame = json.loads(await socket.recv())
        if (frame["topic"], frame["kind"]) != (job, "watching"):
            raise TimeoutError(f"a viewer was not let in: {frame}")
        return socket


async def _read(socket: ClientConnection, topic: str) -> Seen:
    """Everything until the log is complete; whoever is hung up on has lost the rest."""
    seen = Seen()
    try:
        while not seen.is_complete:
            async with asyncio.timeout(PATIENCE_S):
                text = await socket.recv()
            at_ns = time.time_ns()
            frame = json.loads(text)
            if frame["topic"] == topic and frame["kind"] == "lines":
                seen.take(frame, at_ns)
    except (TimeoutError, ConnectionClosed) as problem:
        tell(f"a viewer heard no more: {problem!r}")
    return seen
