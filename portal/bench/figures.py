"""What every benchmark needs: nodes, a client, percentiles, the machine's state."""

from __future__ import annotations

import math
import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from portal.embedded.programs import LocalNode
from portal.embedded.stack import Stack

PROJECT, POOL = "vision/digits", "default"
# Each node of a benchmark is an agent process of its own on this machine.
MOST_NODES = 128
# What `bench` lets through; a workload with other bounds has a MOST of its own.
MOST = {"nodes": MOST_NODES, "jobs": 1_000_000}


def nodes_of(count: int, gpus: int) -> tuple[LocalNode, ...]:
    """So many local nodes, large enough that only GPUs limit them."""
    return tuple(
        LocalNode(f"n{number}", gpus, cpus=gpus, memory_mib=gpus * 64)
        for number in range(1, count + 1)
    )


def client(stack: Stack) -> httpx.Client:
    """The API as alice."""
    return httpx.Client(
        base_url=f"{stack.address}/api/v1",
        headers={"Authorization": f"Bearer {stack.api_tokens['alice']}"},
        timeout=60,
    )


def spec(name: str, **fields: Any) -> dict[str, Any]:
    """The smallest job, with one GPU."""
    return {
        "name": name,
        "project": PROJECT,
        "pool": POOL,
        "memory": "16MiB",
        "time_limit": "5m",
        **fields,
    }


def add_database(parser: ArgumentParser) -> None:
    """`--database`: what the measured servers keep their data in."""
    parser.add_argument(
        "--database", choices=["sqlite", "postgres"], default="sqlite", help="default %(default)s"
    )


def add_strict(parser: ArgumentParser) -> None:
    """`--strict`: what is beyond its budget fails the command, so that a build can stop at it."""
    parser.add_argument(
        "--strict", action="store_true", help="exit 1 when something is over its budget"
    )


def breaches(figures: Mapping[str, Any]) -> list[str]:
    """What is over its budget, and pages that nobody could open, one sentence each."""
    over = [
        f"{one['page']}: {one['measure']} is {one['value']}, {one['budget']} allowed"
        for one in figures.get("over_budget", ())
    ]
    return over + [f"{page}: was not opened" for page in figures.get("not_opened", ())]


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile, to a tenth."""
    ordered = sorted(values)
    # Of 100 the 95th; a share such as 0.95 is a little more than it says.
    rank = math.ceil(round(share * len(ordered), 9))
    return round(ordered[max(rank, 1) - 1], 1)


def machine() -> dict[str, Any]:
    """What the figures were measured on. `yardstick_ms`: the best of 25."""
    load = round(os.getloadavg()[0], 2)
    best = round(min(yardstick_ms() for _ in range(25)), 1)
    return {"cores": os.cpu_count(), "load_average": load, "yardstick_ms": best}


def yardstick_ms() -> float:
    """How long a million squares take to be added up in Python, by a fifth of them: figures of
    machines of different speed, and of one that wavers, can be compared by it."""
    began, total = time.perf_counter(), 0
    for number in range(200_000):
        total += number * number
    return 5 * 1000 * (time.perf_counter() - began)


def tell(words: str) -> None:
    """Progress, for people."""
    print(f"  {time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)
