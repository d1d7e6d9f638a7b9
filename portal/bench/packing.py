"""How full a cluster gets when requests of the openb trace arrive one by one and none ever ends."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from portal.bench.figures import machine, tell
from portal.bench.openb import Trace, TraceProblem, read_trace, snapshot_of
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import PlacementRule, Policy
from scheduler.engine.snapshot import Snapshot, SnapshotInvalid

MOST = {"tile": 64}
MARKS = (100, 130)
# Every arrival is decided, but the dropped ones cost little: one test per kind of request.
RATES = ("decisions_per_s", "placements_per_s")


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench packing`."""
    parser.add_argument("--nodes", type=Path, required=True, help="openb node list (CSV, or .gz)")
    parser.add_argument("--pods", type=Path, required=True, help="openb pod list (CSV, or .gz)")
    parser.add_argument("--orders", type=Path, required=True, help="arrival orders (or .gz)")
    parser.add_argument("--seeds", help="such as 42,43; default all of the orders")
    parser.add_argument(
        "--tile", type=int, default=1, help="copies of nodes and arrivals, 1 to 64; default 1"
    )
    parser.add_argument(
        "--policy",
        choices=[str(rule) for rule in PlacementRule],
        default=str(PlacementRule.PACK),
        help="default %(default)s",
    )


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Every seed of the orders through `plan_cycle`. Raises TraceProblem.

    All arrivals wait in one cycle, the first to come first in order. That equals one cycle per
    pod: the engine admits job by job in that order, each on what the earlier ones left, and what
    fits nowhere lets the next one pass. As nothing ends, it would not fit in a later cycle either.
    The policy never keeps nodes for a job that waits, and the requests to keep room for are those
    of the pod list, not of the arrivals, so that no pod's place depends on a later one.
    """
    trace = read_trace(options["nodes"], options["pods"], options["orders"])
    seeds = _seeds(options["seeds"], trace)
    rule = PlacementRule(options["policy"])
    policy = Policy(head_patience_s=float("inf"), placement=rule)
    per_seed = []
    for seed in seeds:
        arrivals, rank = trace.orders[seed]
        snapshot = snapshot_of(trace, arrivals, rank, options["tile"])
        began = time.perf_counter()
        plan = _plan(snapshot, policy)
        took_s = time.perf_counter() - began
        figures = _figures(snapshot, plan, trace.capacity_milli * options["tile"])
        per_seed.append(
            {
                "seed": seed,
                **figures,
                "decisions_per_s": round(len(snapshot.waiting) / took_s),
                "placements_per_s": round(len(plan.starts) / took_s),
            }
        )
        tell(f"{rule}: {per_seed[-1]}")
    keys = [*(f"alloc_at_{mark}" for mark in MARKS), "placed", "dropped"]
    return {
        "bench": "packing",
        "policy": str(rule),
        "seeds": seeds,
        "tile": options["tile"],
        "nodes": len(trace.nodes.gpus) * options["tile"],
        **{key: _mean([seed[key] for seed in per_seed]) for key in keys},
        **{key: round(float(np.median([seed[key] for seed in per_seed]))) for key in RATES},
        "per_seed": per_seed,
        **machine(),
    }


def _plan(snapshot: Snapshot, policy: Policy) -> Plan:
    try:
        return plan_cycle(snapshot, policy)
    except SnapshotInvalid as problem:
        raise TraceProblem(f"the trace asks for what cannot be: {problem}") from None


def _seeds(words: str | None, trace: Trace) -> list[int]:
    if words is None:
        return list(trace.orders)
    try:
        seeds = [int(word) for word in words.split(",")]
    except ValueError:
        raise TraceProblem("--seeds must be whole numbers with commas between") from None
    unknown = [seed for seed in seeds if seed not in trace.orders]
    if unknown:
        known = ", ".join(map(str, trace.orders))
        raise TraceProblem(f"--seeds {unknown[0]} is not in the orders; they hold {known}")
    return seeds


def _figures(snapshot: Snapshot, plan: Plan, capacity_milli: int) -> dict[str, Any]:
    """Allocated GPU in % of capacity where the arrived sum rounds to each mark, and who got in."""
    waiting = snapshot.waiting
    asked = waiting.gpus_per_node * np.where(waiting.gpus_per_node > 0, waiting.gpu_milli, 0)
    is_placed = np.zeros(len(waiting), dtype=np.bool_)
    is_placed[[start.job for start in plan.starts]] = True
    arrived = np.cumsum(asked) / capacity_milli * 100
    used = np.round(np.cumsum(asked * is_placed) / capacity_milli * 100, 2)
    figures: dict[str, Any] = {}
    for mark in MARKS:
        there = np.round(arrived) == mark
        figures[f"alloc_at_{mark}"] = round(float(used[there].mean()), 3) if there.any() else None
    figures["placed"] = len(plan.starts)
    figures["dropped"] = len(waiting) - len(plan.starts)
    return figures


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), 3) if len(known) == len(values) else None
