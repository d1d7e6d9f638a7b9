"""One decision of the engine alone: a cluster in use, a long queue, every wait explained."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from portal.bench.deciding.crowd import Sizes, crowded
from portal.bench.figures import machine, percentile, tell
from portal.embedded.places import StackProblem
from scheduler.conf import load_conf
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Snapshot

MOST = {"nodes": 20_000, "gpus_per_node": 16, "pending": 2_000_000, "queues": 1_000, "runs": 200}
WARM_UP = 2


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench cycle`."""
    parser.add_argument("--nodes", type=int, default=1000, help="default %(default)s")
    parser.add_argument("--gpus-per-node", type=int, default=8, help="default %(default)s")
    parser.add_argument(
        "--running", type=float, default=1.0, help="part of the nodes in use; default %(default)s"
    )
    parser.add_argument("--pending", type=int, default=10_000, help="jobs; default %(default)s")
    parser.add_argument("--queues", type=int, default=10, help="default %(default)s")
    parser.add_argument("--runs", type=int, default=15, help="measured; default %(default)s")
    parser.add_argument("--seed", type=int, default=42, help="default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Plan the same snapshot again and again under the product's own policy."""
    if not 0 <= options["running"] <= 1:
        raise StackProblem("--running must be 0 to 1, the part of the nodes in use")
    names = ("nodes", "gpus_per_node", "running", "pending", "queues", "seed")
    sizes = {name: options[name] for name in names}
    snapshot = crowded(Sizes(**sizes))
    tell(f"{len(snapshot.held.job)} shares held, {len(snapshot.waiting)} jobs wait")
    plan, took_ms = timed(snapshot, load_conf().policy, options["runs"])
    began = time.perf_counter()
    told = sum(1 for _ in plan.iter_waits())
    return {
        "bench": "cycle",
        **sizes,
        "cycle_ms": {"p50": percentile(took_ms, 0.5), "p95": percentile(took_ms, 0.95)},
        "started": len(plan.starts),
        "stopped": len(plan.stops),
        "explained": told,
        "verdicts": len(plan.waits.verdicts),
        # What it takes to read every single answer out of the columns, too.
        "tell_all_ms": round((time.perf_counter() - began) * 1000, 1),
        **machine(),
    }


def timed(snapshot: Snapshot, policy: Policy, runs: int) -> tuple[Plan, list[float]]:
    """The plan, and how long each of the measured runs took, in milliseconds."""
    took_ms = []
    for _ in range(WARM_UP + runs):
        began = time.perf_counter()
        plan = plan_cycle(snapshot, policy)
        took_ms.append((time.perf_counter() - began) * 1000)
    return plan, took_ms[WARM_UP:]
