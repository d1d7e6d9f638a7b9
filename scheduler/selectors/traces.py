"""Past jobs as a trace, for the simulator. For the operator's shell: it leaves out nobody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduler.engine.snapshot import floats, ints
from scheduler.models import Device, Job, Node, Pool
from scheduler.simulator.workload import Workload
from scheduler.states import NodeState


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The jobs of a pool that were submitted in some time and have ended, and the pool's size.

    Times count from the window's begin. `skipped`: jobs without GPUs, and larger than the pool.
    """

    workload: Workload
    nodes: int
    teams: tuple[str, ...]
    skipped: int


def window_of(pool: Pool, since: datetime, until: datetime) -> Window:
    """What ran, how long it ran, how long it might have, and for whom."""
    nodes = Node.objects.filter(pool=pool).exclude(state=NodeState.RETIRED)
    present = Device.objects.filter(node__in=nodes, is_present=True).values_list("node_id")
    counts: dict[int, int] = {}
    for (node,) in present:
        counts[node] = counts.get(node, 0) + 1
    per_node = max(counts.values(), default=1)
    ended = Job.objects.filter(
        pool=pool,
        queued_at__gte=since,
        queued_at__lt=until,
        started_at__isnull=False,
        ended_at__isnull=False,
    ).order_by("queued_at", "id")
    fields = ("queued_at", "started_at", "ended_at", "nodes", "gpus_per_node", "time_limit_s")
    every = list(ended.values_list(*fields, "project__team__slug"))
    rows = [row for row in every if 0 < row[3] * row[4] <= len(counts) * per_node]
    names = tuple(sorted({row[6] for row in rows}))
    workload = Workload(
        gpus_per_node=per_node,
        submit_s=floats([(row[0] - since).total_seconds() for row in rows]),
        run_s=floats([max(1.0, (row[2] - row[1]).total_seconds()) for row in rows]),
        declared_s=floats([row[5] for row in rows]),
        gpus=ints([row[3] * row[4] for row in rows]),
        team=ints([names.index(row[6]) for row in rows]),
    )
    return Window(workload, len(counts), names, len(every) - len(rows))
