"""The jobs of a trace as a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.engine.snapshot import Floats, Ints, floats, ints
from scheduler.simulator.traces.reading import ALL, Trace
from scheduler.simulator.workload import Workload


def workload_of(
    trace: Trace, declared_s: Floats, rows: Ints, *, nodes: int, gpus_per_node: int
) -> Workload:
    """These rows of a trace, without the jobs that are larger than the whole pool."""
    rows = fitting(trace, rows, nodes * gpus_per_node)
    return _workload(trace, declared_s, rows, gpus_per_node)


def fitting(trace: Trace, rows: Ints, gpus: int) -> Ints:
    """Those of these rows that are no larger than so many GPUs."""
    return ints(rows[trace.gpus[rows] <= gpus])


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
    most = ints([*(nodes * gpus_per_node for nodes in pools.values()), -1])
    rows = trace.sorted_rows()
    rows = ints(rows[trace.gpus[rows] <= most[pool[rows]]])
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
    )
