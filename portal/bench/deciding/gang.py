"""One wide gang of a higher tier meets a full cluster: the cycle that says who stops for it."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

import numpy as np

from portal.bench.deciding.crowd import CPUS_PER_GPU, MIB_PER_GPU, NOW_S, Sizes, crowded
from portal.bench.deciding.cycle import timed
from portal.bench.figures import machine, percentile, tell
from portal.embedded.places import StackProblem
from scheduler.conf import load_conf
from scheduler.engine.snapshot import Snapshot, Waiting, floats, ints
from scheduler.states import Tier

MOST = {"nodes": 20_000, "gpus": 100_000, "pending": 1_000_000, "runs": 200}
GPUS_PER_NODE = 8


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench gang`."""
    parser.add_argument("--nodes", type=int, default=1000, help="of 8 GPUs; default %(default)s")
    parser.add_argument("--gpus", type=int, default=200, help="of the gang; default %(default)s")
    parser.add_argument(
        "--pending", type=int, default=1, help="jobs that wait beside it; default %(default)s"
    )
    parser.add_argument("--runs", type=int, default=15, help="measured; default %(default)s")
    parser.add_argument("--seed", type=int, default=42, help="default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Plan it under the product's policy, with preemption on; it needs nodes of eight GPUs each."""
    nodes, rest = divmod(options["gpus"], GPUS_PER_NODE)
    if rest or nodes > options["nodes"]:
        raise StackProblem(
            f"--gpus must be a multiple of {GPUS_PER_NODE} and no more than the nodes have"
        )
    sizes = Sizes(
        nodes=options["nodes"],
        gpus_per_node=GPUS_PER_NODE,
        running=1.0,
        pending=options["pending"],
        queues=10,
        seed=options["seed"],
    )
    snapshot = with_gang(crowded(sizes), nodes)
    policy = replace(load_conf().policy, preempts=True)
    tell(f"{len(snapshot.held.job)} shares held, a gang of {nodes} nodes wants in")
    plan, took_ms, _ = timed(snapshot, policy, options["runs"])
    assert snapshot.running is not None
    gpus = snapshot.running.jobs.nodes * snapshot.running.jobs.gpus_per_node
    stopped = np.isin(snapshot.running.jobs.id, [stop.job for stop in plan.stops])
    return {
        "bench": "gang",
        "nodes": options["nodes"],
        "gpus": options["gpus"],
        "pending": options["pending"],
        "seed": options["seed"],
        "cycle_ms": {"p50": percentile(took_ms, 0.5), "p95": percentile(took_ms, 0.95)},
        "started": len(plan.starts),
        "victims": len(plan.stops),
        "victim_gpus": int(gpus[stopped].sum()),
        "lost_gpu_hours": round(float(_lost_gpu_s(snapshot, plan.stops)) / 3600, 1),
        **machine(),
    }


def with_gang(snapshot: Snapshot, nodes: int) -> Snapshot:
    """The snapshot with one more job, of the highest tier, that wants this many whole nodes."""
    gang = Waiting.of(
        id=ints([int(snapshot.waiting.id.max(initial=0)) + 1]),
        pool=ints([0]),
        queue=ints([0]),
        tier=ints([Tier.PRODUCTION]),
        queued_at_s=floats([NOW_S - 1]),
        nodes=ints([nodes]),
        gpus_per_node=ints([GPUS_PER_NODE]),
        cpus=ints([GPUS_PER_NODE * CPUS_PER_GPU]),
        memory_mib=ints([GPUS_PER_NODE * MIB_PER_GPU]),
        time_limit_s=ints([3600]),
        remaining_s=floats([3600]),
    )
    return replace(snapshot, waiting=snapshot.waiting.join(gang))


def _lost_gpu_s(snapshot: Snapshot, stops: Any) -> float:
    assert snapshot.running is not None
    jobs = snapshot.running.jobs
    gpus = dict(zip(jobs.id.tolist(), (jobs.nodes * jobs.gpus_per_node).tolist(), strict=True))
    return sum(stop.facts["lost_s"] * gpus[stop.job] for stop in stops)
