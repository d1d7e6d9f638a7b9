"""One decision of the engine alone: a cluster in use, a long queue, every wait explained."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from portal.bench.deciding.crowd import Sizes, crowded
from portal.bench.figures import machine, percentile, tell
from portal.embedded.places import StackProblem
from scheduler.collecting import settle
from scheduler.conf import load_conf
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import Snapshot

MOST = {"nodes": 20_000, "gpus_per_node": 16, "pending": 2_000_000, "queues": 1_000, "runs": 200}
MOST_ACCOUNTS = 100_000
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
    parser.add_argument(
        "--accounts", type=int, default=500, help="whose jobs; default %(default)s, 0 for none"
    )
    parser.add_argument(
        "--quotas", action="store_true", help="teams are guaranteed equal parts of the cluster"
    )
    parser.add_argument("--policy", choices=list(Order), help="default: the product's")
    parser.add_argument("--runs", type=int, default=15, help="measured; default %(default)s")
    parser.add_argument("--seed", type=int, default=42, help="default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Plan the same snapshot again and again; only `policy` may differ from the product's own."""
    if not 0 <= options["running"] <= 1:
        raise StackProblem("--running must be 0 to 1, the part of the nodes in use")
    if not 0 <= options["accounts"] <= MOST_ACCOUNTS:
        raise StackProblem(f"--accounts must be 0 to {MOST_ACCOUNTS}")
    names = ("nodes", "gpus_per_node", "running", "pending", "queues", "seed", "accounts", "quotas")
    sizes = {name: options[name] for name in names}
    snapshot = crowded(Sizes(**sizes))
    tell(f"{len(snapshot.held.job)} shares held, {len(snapshot.waiting)} jobs wait")
    policy = load_conf().policy
    if options["policy"]:
        policy = replace(policy, order=Order(options["policy"]))
    plan, took_ms, used_ms = timed(snapshot, policy, options["runs"])
    began = time.perf_counter()
    told = sum(1 for _ in plan.iter_waits())
    return {
        "bench": "cycle",
        **sizes,
        "policy": str(policy.order),
        "cycle_ms": {"p50": percentile(took_ms, 0.5), "p95": percentile(took_ms, 0.95)},
        "cpu_ms": {"p50": percentile(used_ms, 0.5)},
        "started": len(plan.starts),
        "stopped": len(plan.stops),
        "explained": told,
        "verdicts": len(plan.waits.verdicts),
        # What it takes to read every single answer out of the columns, too.
        "tell_all_ms": round((time.perf_counter() - began) * 1000, 1),
        **machine(),
    }


def timed(snapshot: Snapshot, policy: Policy, runs: int) -> tuple[Plan, list[float], list[float]]:
    """The plan, how long each of the measured runs took, and how long it had a processor; ms.

    The process is settled first, as the loop's is. The second tells apart what a cycle costs from
    what else the machine does.
    """
    took_ms, used_ms = [], []
    settle()
    for _ in range(WARM_UP + runs):
        began, used = time.perf_counter(), time.process_time()
        plan = plan_cycle(snapshot, policy)
        used_ms.append((time.process_time() - used) * 1000)
        took_ms.append((time.perf_counter() - began) * 1000)
    return plan, took_ms[WARM_UP:], used_ms[WARM_UP:]
