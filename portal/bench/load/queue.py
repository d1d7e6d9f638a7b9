"""Many small jobs of many queues that lend and borrow: how long until all have run."""

from __future__ import annotations

import asyncio
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx

from portal.bench.apart import python
from portal.bench.figures import client, machine, spec, tell
from portal.bench.load.crew import Crew, Seen, enrol
from portal.bench.load.effort import Effort
from portal.bench.load.mixes import CONFIGS, QUOTA, Config, Order, plan
from portal.bench.load.turns import read_turns
from portal.embedded.stack import Stack
from portal.embedded.temporary import temporary_stack
from scheduler.agent.client import Backoff

MOST = {"seed": 2**31, "rack_nodes": 1000}
BULK = 100
SUBMITTERS = 2
PATIENCE_S = 3600.0
BUSY_CAP_S = 5.0
UNFINISHED = "held,queued,starting,running,stopping"


# Teams, projects and pools have no addresses of their own for programs, or only some of them.
SCENE = """
import sys, django
django.setup()
from accounts.models import User
from accounts.services import create_project, create_team
from scheduler.services.nodes import create_pool
root = User.objects.get(username="admin")
for cohort in range(int(sys.argv[1])):
    create_pool(actor=root, name=f"cohort-{cohort}")
    team = create_team(actor=root, name=f"Cohort {cohort}", slug=f"cohort-{cohort}")
    for queue in range(int(sys.argv[2])):
        create_project(actor=root, team=team, name=f"q{queue}", slug=f"q{queue}")
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench queue`."""
    parser.add_argument("--config", choices=sorted(CONFIGS), default="baseline")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the number of jobs; default %(default)s"
    )
    parser.add_argument(
        "--jitter",
        type=float,
        default=0.0,
        help="0.3: intervals and run times are off by up to 30 %%; default %(default)s",
    )
    parser.add_argument("--seed", type=int, default=42, help="of the jitter; default %(default)s")
    parser.add_argument(
        "--rack-nodes", type=int, default=64, help="nodes of a rack of `tas`; default %(default)s"
    )


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Queues as projects, cohorts as teams with a pool of simulated nodes each.

    A higher class stops a lower one, an owner takes back what it lent, at once. `usage`: units
    times run time of the runs that ended well, over all quota for the whole time.
    """
    config = replace(CONFIGS[options["config"]], rack_nodes=options["rack_nodes"])
    orders = plan(config, options["scale"], options["jitter"], options["seed"])
    rules = {"TRAINYARD_MIN_RUN_S": "0", "TRAINYARD_REST_S": "0"}
    with temporary_stack(tell=tell, nodes=(), environment=rules) as stack, client(stack) as api:
        tokens = _prepare(stack, config)
        api.headers["Authorization"] = f"Bearer {stack.api_tokens['admin']}"
        seen = Seen({order.name: order.takes_s for order in orders})
        tell(f"{len(orders)} jobs of {config.cohorts * config.queues} queues")
        effort = Effort(stack)
        wall_s = asyncio.run(_play(stack, api, config, orders, tokens, seen))
        computing = effort.per_job_ms(len(orders))
        turns = read_turns(stack, "", wall_s)
    units = sum(order.kind.units * seen.ran_s.get(order.name, 0.0) for order in orders)
    return {
        "bench": "queue",
        "config": options["config"],
        "scale": options["scale"],
        "jitter": options["jitter"],
        "seed": options["seed"],
        "nodes": len(tokens),
        "jobs": len(orders),
        "succeeded": sum(order.name in seen.ran_s for order in orders),
        "stopped": seen.stopped,
        "wall_s": round(wall_s, 1),
        "usage": round(units / (config.cohorts * config.queues * QUOTA * wall_s), 4),
        "admission_s": _admissions(config, orders, seen),
        "computing_ms_per_job": computing,
        **turns,
        **machine(),
    }


def _prepare(stack: Stack, config: Config) -> dict[str, str]:
    """People, pools and quotas; returns the tokens of the cohorts' nodes by name."""
    environment = dict(stack.environment())
    python(environment, "-c", SCENE, str(config.cohorts), str(config.queues))
    head = {"Authorization": f"Bearer {stack.api_tokens['admin']}"}
    most = QUOTA * (config.queues - 1)
    tokens: dict[str, str] = {}
    with httpx.Client(base_url=stack.address, headers=head, timeout=60) as admin:
        for cohort in range(config.cohorts):
            pool = f"cohort-{cohort}"
            of_cohort = enrol(admin, pool, config.cards_of_a_cohort(), config.node_cards)
            tokens |= of_cohort
            for number, node in enumerate(of_cohort if config.racks else ()):
                place = {"block": "block", "rack": f"{pool}-{number // config.rack_nodes}"}
                admin.post(f"/api/v1/nodes/{node}/place/", json=place).raise_for_status()
            for queue in range(config.queues):
                figures = {"guaranteed": QUOTA, "borrow_limit": min(100, most)}
                figures = {name: config.cards * units for name, units in figures.items()}
                body = {"owner": f"{pool}/q{queue}", "pool": pool, **figures}
                admin.post("/api/v1/rules/quotas/", json=body).raise_for_status()
    return tokens


async def _play(
    stack: Stack,
    api: httpx.Client,
    config: Config,
    orders: list[Order],
    tokens: dict[str, str],
    seen: Seen,
) -> float:
    """Seconds from the first submit to the last end recorded."""
    async with Crew(stack.address, tokens, seen):
        began = seen.began = time.monotonic()
        waiting: asyncio.Queue[list[Order] | None] = asyncio.Queue()
        senders = [asyncio.create_task(_send(api, config, waiting)) for _ in range(SUBMITTERS)]
        for batch in _batches(orders):
            await asyncio.sleep(max(0.0, began + batch[-1].at_s - time.monotonic()))
            waiting.put_nowait(batch)
        for _ in senders:
            waiting.put_nowait(None)
        await asyncio.gather(*senders)
        tell("all submitted")
        params: dict[str, str | int] = {"state": UNFINISHED, "limit": 1}
        while True:
            reply = await asyncio.to_thread(api.get, "/jobs/", params=params)
            if not reply.raise_for_status().json()["items"]:
                return time.monotonic() - began
            if time.monotonic() - began > PATIENCE_S:
                raise TimeoutError(f"jobs were still unfinished after {PATIENCE_S:.0f} s")
            await asyncio.sleep(0.5)


def _batches(orders: list[Order], within_s: float = 0.1) -> Iterator[list[Order]]:
    """What is due within a tenth of a second, at most so many as one call may bring."""
    batch: list[Order] = []
    for order in orders:
        if batch and (len(batch) == BULK or order.at_s - batch[0].at_s > within_s):
            yield batch
            batch = []
        batch.append(order)
    if batch:
        yield batch


async def _send(
    api: httpx.Client, config: Config, waiting: asyncio.Queue[list[Order] | None]
) -> None:
    while (batch := await waiting.get()) is not None:
        jobs = [_job(config, order) for order in batch]
        await asyncio.to_thread(_bring, api, jobs)


def _bring(api: httpx.Client, jobs: list[dict[str, Any]]) -> None:
    """As the command line does: an answer that the portal is busy is no answer, the key holds."""
    key, backoff, until = uuid.uuid4().hex, Backoff(BUSY_CAP_S), time.monotonic() + PATIENCE_S
    while True:
        reply = api.post("/jobs/bulk/", json={"jobs": jobs}, headers={"Idempotency-Key": key})
        is_busy = reply.status_code == httpx.codes.SERVICE_UNAVAILABLE
        if not is_busy or time.monotonic() > until:
            reply.raise_for_status()
            return
        time.sleep(backoff.next_s())


def _job(config: Config, order: Order) -> dict[str, Any]:
    cohort, queue = divmod(order.queue, config.queues)
    kind = order.kind
    gang = {"nodes": kind.members, "topology": f"rack:{order.mode}"} if kind.members > 1 else {}
    return spec(
        order.name,
        project=f"cohort-{cohort}/q{queue}",
        pool=f"cohort-{cohort}",
        command=["true"],
        gpus_per_node=kind.units * config.cards // kind.members,
        tier=kind.tier,
        stop={"grace": 0},
        **gang,
    )


def _admissions(config: Config, orders: list[Order], seen: Seen) -> dict[str, float]:
    """By class: mean seconds from the moment a job was due to its first start on a node."""
    found = {}
    for kind in config.kinds:
        waits = [
            seen.begun_s[order.name] - order.at_s
            for order in orders
            if order.kind is kind and order.name in seen.begun_s
        ]
        found[kind.name] = round(sum(waits) / max(1, len(waits)), 2)
    return found
