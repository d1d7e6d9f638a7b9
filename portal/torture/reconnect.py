"""Everybody comes back at once: hundreds of agents after an outage (19)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from portal.bench.figures import client, machine, percentile, spec
from portal.bench.load.fleet import Fleet, SimulatedAgent, at_work, enrol_agents
from portal.bench.witness import SCRIPT, make_witness_folder, read_starts, verdict, wait_for_all
from portal.embedded.programs import BACKGROUND, BEAT, BROKER, SCHEDULER, WEB
from portal.torture.program import GPUS_PER_NODE
from portal.torture.proxy import Weather
from portal.torture.run import Choice, end_leftovers, installed
from portal.torture.yard import SECOND, Yard
from scheduler.agent.config import DEFAULT_SIMULATED_MODEL

# Renewals of so many, twenty times as often, are more than one machine answers.
DIVIDE = 2
# Hundreds of simulated agents run nothing; what runs, runs on these.
_REAL_NODES = 2
_PATIENCE_S = 180.0
_LOST = (
    "SELECT (SELECT count(*) FROM scheduler_nodeevent WHERE kind = 'lost'),"
    " (SELECT count(*) FROM scheduler_attempt WHERE end_reason = 'node_lost')"
)


def reconnect(choice: Choice, count: int) -> dict[str, Any]:
    """Cut `count` agents off, then kill all servers: how long until each is heard again.

    Jobs run on real nodes meanwhile and must know nothing of it. `false_losses`: nodes and attempts
    that were given up though their agents lived. Raises StackProblem where it cannot be started.
    """
    folder = Path(tempfile.mkdtemp(prefix="trainyard-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        with installed(replace(choice, agents=_REAL_NODES, pools=1), folder) as yard:
            choice.tell(f"enrolling {count} agents")
            secrets = enrol_agents(yard, count)
            witness = make_witness_folder(folder)
            with client(yard) as api:
                outages, jobs = asyncio.run(_outages(yard, choice, secrets, witness))
                states = wait_for_all(api, jobs)
            with psycopg.connect(yard.database) as line:
                nodes_lost, attempts_lost = line.execute(_LOST).fetchone() or (0, 0)
            return {
                "torture": "reconnect",
                "agents": count,
                "divide": choice.divide,
                "renewed_every_s": _every_s(yard),
                "outages": outages,
                "false_losses": nodes_lost + attempts_lost,
                "jobs": len(jobs),
                **verdict(jobs, states, read_starts(witness)),
                **machine(),
            }
    finally:
        end_leftovers(folder)
        shutil.rmtree(folder, ignore_errors=True)


def is_kept(figures: dict[str, Any]) -> bool:
    """Whether nothing was lost, nothing ran twice, and everybody came back."""
    back = all(each["back"] == figures["agents"] for each in figures["outages"].values())
    return back and not (figures["false_losses"] or figures["lost"] or figures["doubled"])


def _every_s(yard: Yard) -> float:
    """Real agents renew every 10 s with a lease of 45 s."""
    return round(yard.timers.lease_s * 10 / 45, 1)


async def _outages(
    yard: Yard, choice: Choice, secrets: list[str], witness: Path
) -> tuple[dict[str, Any], list[int]]:
    proxy = yard.proxies.open(yard.address)
    long_s = yard.timers.lease_s + 10.0
    async with at_work(proxy.address, secrets, _every_s(yard)) as agents:
        await _until(lambda: _ready(yard) == len(agents) + _REAL_NODES, "all nodes are ready")
        jobs = await asyncio.to_thread(_submit, yard, witness, 2 * long_s)
        choice.tell("all are cut off")
        ways = (proxy, *yard.proxy_of.values())
        for way in ways:
            way.weather = Weather(block="both")
        await asyncio.sleep(long_s)
        away = len(agents) + _REAL_NODES - await asyncio.to_thread(_ready, yard)
        began = time.monotonic()
        fleet = _fresh(agents)
        for way in ways:
            yard.proxies.clear(way)
        cut_off = {"outage_s": long_s, "silent": away, **await _return(yard, agents, began, fleet)}
        choice.tell("all servers are killed")
        began = time.monotonic()
        fleet = _fresh(agents)
        for name in (WEB, SCHEDULER, SECOND, BACKGROUND, BEAT, BROKER):
            with contextlib.suppress(ProcessLookupError):
                os.kill(yard.pid_of(name), signal.SIGKILL)
        killed = await _return(yard, agents, began, fleet)
    return {"cut off": cut_off, "all servers killed": killed}, jobs


def _submit(yard: Yard, witness: Path, seconds: float) -> list[int]:
    """Twice as many as run at once: what waits must go on, too."""
    script = SCRIPT.format(folder=witness, seconds=seconds)
    wanted = {"script": script, "gpu_model": DEFAULT_SIMULATED_MODEL}
    wanted["time_limit"] = "30m"
    jobs = [spec(f"beside-{n}", **wanted) for n in range(2 * _REAL_NODES * GPUS_PER_NODE)]
    with client(yard) as api:
        reply = api.post("/jobs/bulk/", json={"jobs": jobs}).raise_for_status()
        return [int(job) for job in reply.json()["ids"]]


def _fresh(agents: list[SimulatedAgent]) -> Fleet:
    fleet = Fleet()
    for agent in agents:
        agent.fleet = fleet
    return fleet


async def _return(
    yard: Yard, agents: list[SimulatedAgent], began: float, fleet: Fleet
) -> dict[str, Any]:
    """Wait until each has had an answer and is ready again; what it took, in seconds."""
    everybody = len(agents) + _REAL_NODES
    with contextlib.suppress(TimeoutError):
        await _until(lambda: len(fleet.heard) == len(agents), "every agent was answered")
        await _until(lambda: _ready(yard) == everybody, "all nodes are ready again")
    ready_s = round(time.monotonic() - began, 1)
    took_s = [at - began for at in fleet.heard.values()] or [ready_s]
    return {
        "back": min(len(fleet.heard), await asyncio.to_thread(_ready, yard) - _REAL_NODES),
        "heard_p50_s": percentile(took_s, 0.5),
        "heard_last_s": percentile(took_s, 1.0),
        "all_ready_s": ready_s,
        "refused_meanwhile": fleet.failed,
        "p95_ms": percentile(fleet.took_ms or [0.0], 0.95),
    }


async def _until(is_so: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not await asyncio.to_thread(is_so):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not after {_PATIENCE_S:.0f} s: {words}")
        await asyncio.sleep(0.2)


# One that is only enrolled is ready as well; what it is given then its agent has to come for.
_HEARD = "SELECT count(*) FROM scheduler_node WHERE state = 'ready' AND agent_id <> ''"


def _ready(yard: Yard) -> int:
    with psycopg.connect(yard.database, connect_timeout=5) as line:
        row = line.execute(_HEARD).fetchone()
    return int(row[0]) if row else 0
