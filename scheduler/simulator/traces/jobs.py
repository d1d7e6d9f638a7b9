"""The jobs of a trace as a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.snapshot import Floats, Ints, floats, ints
from scheduler.simulator.traces.reading import ALL, Trace
from scheduler.simulator.workload import Workload


def workload_of(
    trace: Trace, declared_s: Floats, rows: Ints, *, nodes: int, gpus_per_node: int
) -> Workload:
    """These rows of a trace, without the jobs that are larger than the whole pool."""
    rows = fitting(trace, rows, nodes, gpus_per_node)
    return _workload(trace, declared_s, rows, gpus_per_node)


def fitting(trace: Trace, rows: Ints, nodes: int, gpus_per_node: int) -> Ints:
    """Those of these rows that a pool of so many such nodes can hold."""
    blank = floats(np.zeros(len(trace)))
    return ints(rows[_workload(trace, blank, rows, gpus_per_node).fit(ints([nodes]))])


def workload_in(
    trace: Trace,
    declared_s: Floats,
    pools: Mapping[str, int],
    owners: Sequence[str],
    *,
    gpus_per_node: int,
) -> tuple[Workload, tuple[str, ...]]:
    """The jobs of these pools (nodes by name; `ALL` takes every job), without those larger than
    theirs, and the names of their teams. `owners` says whose each job of the trace is.
    """
    place = {name: row for row, name in enumerate(pools)}
    usual = place.get(ALL)
    pool = ints([-1 if (row := place.get(one, usual)) is None else row for one in trace.pool])
    rows = trace.sorted_rows()
    rows = ints(rows[pool[rows] >= 0])
    size = ints(list(pools.values()))
    placed = replace(_workload(trace, declared_s, rows, gpus_per_node), pool=pool[rows])
    rows = ints(rows[placed.fit(size)])
    names = tuple(sorted(set(owners)))
    number = {name: row for row, name in enumerate(names)}
    team = ints([number[owners[row]] for row in rows.tolist()])
    work = replace(_workload(trace, declared_s, rows, gpus_per_node), team=team)
    return (work if len(pools) == 1 else replace(work, pool=pool[rows])), names


def _workload(trace: Trace, declared_s: Floats, rows: Ints, gpus_per_node: int) -> Workload:
    return Workload(
        gpus_per_node=gpus_per_node,
        submit_s=floats(trace.submit_s[rows]),
        run_s=floats(trace.duration_s[rows]),
        declared_s=declared_s[rows],
        gpus=trace.gpus[rows],
        tier=None if trace.tier is None else trace.tier[rows],
        checkpoint_s=None if trace.checkpoint_s is None else trace.checkpoint_s[rows],
        promised_s=None if trace.promised_s is None else trace.promised_s[rows],
        nodes=None if trace.nodes is None else trace.nodes[rows],
    )
