"""Gangs that want one rack each: how fast they are placed, and how well the racks are filled."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from portal.bench.deciding.crowd import CPUS_PER_GPU, MIB_PER_GPU, NOW_S, Sizes, crowded
from portal.bench.deciding.cycle import timed
from portal.bench.figures import machine, percentile, tell
from scheduler.conf import load_conf
from scheduler.engine.plan import Plan
from scheduler.engine.snapshot import SPREADS, TOPOLOGIES, Snapshot, Waiting, floats, ints
from scheduler.states import Tier

MOST = {"racks": 1_000, "rack_nodes": 1_000, "gangs": 100_000, "runs": 200}
GPUS_PER_NODE = 8
GANGS = (2, 4, 8)


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench topology`."""
    parser.add_argument("--racks", type=int, default=10, help="default %(default)s")
    parser.add_argument("--rack-nodes", type=int, default=64, help="default %(default)s")
    parser.add_argument("--gangs", type=int, default=500, help="of 2, 4 or 8 whole nodes")
    parser.add_argument("--mode", choices=SPREADS, default="required", help="default %(default)s")
    parser.add_argument("--running", type=float, default=0.3, help="part of the nodes in use")
    parser.add_argument("--runs", type=int, default=15, help="measured; default %(default)s")
    parser.add_argument("--seed", type=int, default=42, help="default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Plan a queue of gangs that fills the cluster, in one cycle, every wait explained."""
    nodes, size = options["racks"] * options["rack_nodes"], options["rack_nodes"]
    sizes = Sizes(nodes, GPUS_PER_NODE, options["running"], 1, 1, options["seed"])
    snapshot = with_gangs(crowded(sizes), options["gangs"], options["mode"], options["seed"])
    racks = ints(np.arange(nodes) // size)
    snapshot = replace(snapshot, nodes=replace(snapshot.nodes, rack=racks))
    tell(f"{nodes} nodes in {options['racks']} racks, {options['gangs']} gangs wait")
    plan, took_ms, _ = timed(snapshot, load_conf().policy, options["runs"])
    spans = _racks_of_gangs(snapshot, plan)
    placed_nodes = sum(len(start.placements) for start in plan.starts)
    free = int((np.bincount(snapshot.held.node, minlength=nodes) == 0).sum())
    middle_ms = percentile(took_ms, 0.5)
    return {
        "bench": "topology",
        **{name: options[name] for name in ("racks", "rack_nodes", "gangs", "mode", "seed")},
        "cycle_ms": {"p50": middle_ms, "p95": percentile(took_ms, 0.95)},
        "started": len(plan.starts),
        # Waiting gangs are decided by class and cost next to nothing: starts alone are counted.
        "starts_per_s": round(len(plan.starts) / middle_ms * 1000),
        "racks_of_a_gang": dict(sorted(Counter(spans).items())),
        "free_nodes": free,
        "filled_nodes": placed_nodes,
        **machine(),
    }


def with_gangs(snapshot: Snapshot, count: int, mode: str, seed: int) -> Snapshot:
    """The snapshot with these gangs instead of what waits."""
    draws = np.random.default_rng(seed)
    same = np.ones(count, dtype=np.int64)
    gangs = Waiting.of(
        id=ints(np.arange(count) + 1_000_000),
        pool=0 * same,
        queue=0 * same,
        tier=same * int(Tier.NORMAL),
        queued_at_s=floats(NOW_S - count + np.arange(count)),
        nodes=ints(draws.choice(GANGS, count)),
        gpus_per_node=same * GPUS_PER_NODE,
        cpus=same * GPUS_PER_NODE * CPUS_PER_GPU,
        memory_mib=same * GPUS_PER_NODE * MIB_PER_GPU,
        time_limit_s=same * 3600,
        remaining_s=floats(same * 3600),
        topology=same * TOPOLOGIES.index("rack"),
        spread=same * SPREADS.index(mode),
    )
    return replace(snapshot, waiting=gangs, running=None)


def _racks_of_gangs(snapshot: Snapshot, plan: Plan) -> list[int]:
    """Over how many racks each started gang is spread."""
    rack_of = dict(zip(snapshot.nodes.id.tolist(), snapshot.nodes.rack.tolist(), strict=True))
    return [len({rack_of[p.node] for p in start.placements}) for start in plan.starts]
