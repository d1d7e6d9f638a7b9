"""Snapshots with live jobs that may be stopped, and the cycles that follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Claims, Running, Snapshot, floats, ints
from tests.builders import NOW_S, DrawnJob, draw

TIERS = Policy(preempts=True)
PROMISED = Policy(preempts=True, min_run_s=600, rest_s=1800)


def live(snapshot: Snapshot, *jobs: DrawnJob, **columns: list[float]) -> Snapshot:
    """The snapshot with these running jobs, drawn on it already."""
    table = draw("a", jobs=jobs).waiting
    zeros = ints(np.zeros(len(table)))
    table = replace(table, pool=zeros, queue=zeros)
    given_columns = {name: floats(values) for name, values in columns.items()}
    given_columns.setdefault("restart_cost_s", floats([60.0] * len(table)))
    return replace(snapshot, running=Running.of_jobs(table, **given_columns))


def stops(plan: Plan) -> list[tuple[int, int]]:
    return [(stop.job, stop.beneficiary) for stop in plan.stops]


def starts(plan: Plan) -> dict[int, list[int]]:
    return {start.job: [p.node for p in start.placements] for start in plan.starts}


def claimed(snapshot: Snapshot, plan: Plan, *, gone: bool = False) -> Snapshot:
    """The next cycle: victims are stopping, or `gone`; the rooms of the started jobs are kept."""
    devices = snapshot.devices
    row_of_node = {number: row for row, number in enumerate(snapshot.nodes.id.tolist())}
    claim = devices.claim.copy()
    rows: list[tuple[int, int, int, int, int]] = []
    beneficiaries = {stop.beneficiary for stop in plan.stops}
    for start in plan.starts:
        if start.job not in beneficiaries:
            continue
        for p in start.placements:
            claim[np.isin(devices.id, p.devices)] = len(rows)
            rows.append((start.job, row_of_node[p.node], len(p.devices), p.cpus, p.memory_mib))
    job_of, node, gpus, cpus, mib = list(zip(*rows, strict=True)) or [()] * 5
    ends = floats([NOW_S + 7200] * len(rows))
    claims = Claims(ints(job_of), ints(node), ints(gpus), ints(cpus), ints(mib), ends)
    assert snapshot.running is not None
    victims = [stop.job for stop in plan.stops]
    stay = ~np.isin(snapshot.running.jobs.id, victims)
    after = replace(
        snapshot,
        devices=replace(devices, claim=claim),
        claims=claims,
        running=snapshot.running.take(stay),
    )
    if not gone:
        return after
    return without(after, victims)


def without(snapshot: Snapshot, gone: list[int]) -> Snapshot:
    """The snapshot once these jobs have given back what they hold."""
    held, nodes = snapshot.held, snapshot.nodes
    left = ~np.isin(held.job, gone)
    new_row = np.append(np.where(left, np.cumsum(left) - 1, NONE), NONE)
    size = len(nodes.id)
    cpus = np.bincount(held.node[~left], weights=held.cpus[~left], minlength=size)
    mib = np.bincount(held.node[~left], weights=held.memory_mib[~left], minlength=size)
    return replace(
        snapshot,
        nodes=replace(
            nodes,
            cpus_free=nodes.cpus_free + cpus.astype(np.int64),
            memory_free_mib=nodes.memory_free_mib + mib.astype(np.int64),
        ),
        devices=replace(snapshot.devices, holder=ints(new_row[snapshot.devices.holder])),
        held=held.take(left),
    )
