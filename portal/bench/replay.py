"""A trace of past jobs under a shipped policy, in the simulator: completion, waiting, bound."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from portal.bench.figures import machine, tell
from portal.embedded.places import StackProblem
from scheduler.engine.policy import DEFAULT_POLICY, Order, Policy
from scheduler.simulator.guard import Guard
from scheduler.simulator.judging.calibration import Oracle, calibration_of
from scheduler.simulator.judging.figures import figures_of
from scheduler.simulator.replay import no_limit, replay
from scheduler.simulator.traces.jobs import fitting, workload_of
from scheduler.simulator.traces.reading import Trace, TraceInvalid, declared_s, read_trace
from scheduler.simulator.traces.writing import Results, write_trace


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench replay`."""
    parser.add_argument(
        "--trace", required=True, help="CSV, plain or .gz: submit,duration,gpus and more"
    )
    parser.add_argument(
        "--pools",
        required=True,
        help="nodes: one number for a single pool of all jobs, or vc=n,vc=n; others are left out",
    )
    parser.add_argument("--gpus-per-node", type=int, default=8, help="default %(default)s")
    parser.add_argument(
        "--durations",
        default="exact",
        help="what is declared: exact (default), hidden, stated (the trace's column declared), "
        "noisy:F (times F^u, u in [-1, 1]), padded:F (u in [0, 1])",
    )
    parser.add_argument("--policy", choices=[*Order], default=Order.FIFO, help="who is next")
    parser.add_argument(
        "--preempt", action="store_true", help="live jobs may be stopped for others"
    )
    parser.add_argument(
        "--heads",
        type=int,
        default=DEFAULT_POLICY.heads,
        help="for how many jobs of a pool room is kept at most; default %(default)s",
    )
    parser.add_argument(
        "--no-guard",
        action="store_true",
        help="without preemption, let shortest first starve whom it starves",
    )
    parser.add_argument(
        "--forecasts",
        action="store_true",
        help="also say how many starts came within the p50 and p90 that the jobs were told",
    )
    parser.add_argument(
        "--write", help="write the trace again, with what became of each job (.csv or .gz)"
    )
    parser.add_argument("--seed", type=int, default=42, help="of the noise; default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Replay pool after pool; pools share nothing, so each is a cluster of its own."""
    began = time.perf_counter()
    trace, declared = _read(options)
    policy = _policy(options, trace)
    results = Results.none(len(trace))
    is_guarded = (
        policy.order is Order.SHORTEST
        and not (policy.preempts or options["no_guard"])
        and bool(np.isfinite(declared).all())
    )
    if options["forecasts"] and policy.preempts:
        raise StackProblem("--forecasts tells of runs in which nobody is stopped; drop --preempt")
    runs, tables, skipped = [], [], len(trace)
    for name, (rows, nodes) in _pools(options["pools"], trace).items():
        work = workload_of(
            trace, declared, rows, nodes=nodes, gpus_per_node=options["gpus_per_node"]
        )
        skipped -= len(work)
        if len(work):
            tell(f"{name}: {len(work)} jobs on {nodes} nodes")
            limit = Guard(work, nodes) if is_guarded else no_limit
            if options["forecasts"]:
                oracle = Oracle(limit)
                outcome = replay(work, nodes, policy, watch=oracle.watch, limit=oracle.limit)
                tables.append(oracle.told_of(work, outcome))
            else:
                outcome = replay(work, nodes, policy, limit=limit)
            runs.append((work, nodes, outcome))
            mine = fitting(trace, rows, nodes, options["gpus_per_node"])
            results.put(mine, outcome.results())
    if not runs:
        raise StackProblem("no job of the trace fits a pool; check --pools and --gpus-per-node")
    if options["write"]:
        _write(Path(options["write"]), trace, results)
    return {
        "bench": "replay",
        "trace": Path(options["trace"]).name,
        "policy": options["policy"],
        "durations": options["durations"],
        "heads": options["heads"],
        "seed": options["seed"],
        "is_preemptive": policy.preempts,
        "is_guarded": is_guarded,
        **asdict(figures_of(runs)),
        "skipped": skipped,
        **({"forecasts": asdict(calibration_of(tables))} if options["forecasts"] else {}),
        "wall_s": round(time.perf_counter() - began, 1),
        **machine(),
    }


def _write(path: Path, trace: Trace, results: Results) -> None:
    try:
        write_trace(path, trace, results)
    except OSError as problem:
        raise StackProblem(f"--write: {problem}") from None


def _policy(options: dict[str, Any], trace: Trace) -> Policy:
    """The shipped policy of that name. Stopping and starting take no time in a trace, so nobody is
    given a head start.
    """
    by_tier = options["policy"] not in (Order.SHORTEST, Order.LAS)
    if options["preempt"] and by_tier and (trace.tier is None or len(set(trace.tier)) == 1):
        raise StackProblem(
            f"--preempt with --policy {options['policy']} would stop nobody, because the jobs of "
            "the trace are of one tier; use shortest or las, or give it a column tier"
        )
    if options["heads"] < 1:
        raise StackProblem("--heads must be at least 1")
    return Policy(
        order=Order(options["policy"]),
        head_patience_s=0,
        backfill_slack_s=0,
        preempts=options["preempt"],
        heads=options["heads"],
    )


def _read(options: dict[str, Any]) -> tuple[Trace, Any]:
    if options["gpus_per_node"] < 1:
        raise StackProblem("--gpus-per-node must be at least 1")
    try:
        trace = read_trace(Path(options["trace"]))
        return trace, declared_s(trace, options["durations"], options["seed"])
    except TraceInvalid as problem:
        raise StackProblem(str(problem)) from None
    except OSError as problem:
        raise StackProblem(f"--trace cannot be read: {problem}") from None


def _pools(text: str, trace: Trace) -> dict[str, tuple[Any, int]]:
    """By name: the rows of its jobs and its nodes."""
    sizes = (
        dict(part.partition("=")[::2] for part in text.split(",")) if "=" in text else {"": text}
    )
    if not all(size.isdecimal() and int(size) > 0 for size in sizes.values()):
        raise StackProblem(f"--pools {text!r} is no number of nodes, nor vc=nodes,vc=nodes")
    if "" in sizes:
        return {"all": (trace.sorted_rows(), int(text))}
    rows = trace.by_pool()
    unknown = sorted(sizes.keys() - rows.keys())
    if unknown:
        raise StackProblem(f"--pools names {', '.join(unknown)}, but no job of the trace does")
    return {name: (rows[name], int(size)) for name, size in sorted(sizes.items())}
