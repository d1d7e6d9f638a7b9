"""Past jobs as a trace, for the simulator. For the operator's shell: it leaves out nobody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accounts.models import Project
from scheduler.engine.snapshot import NONE, floats, ints
from scheduler.models import Device, Job, Node, Pool
from scheduler.simulator.workload import Workload
from scheduler.states import NodeState


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The jobs of a pool that were submitted in some time and have ended, and the pool's size.

    Times count from the window's begin. `skipped`: jobs without GPUs, and larger than the pool.
    `parents`: by team, the row of the one it is a project of, or -1.
    """

    workload: Workload
    nodes: int
    teams: tuple[str, ...]
    skipped: int
    parents: tuple[int, ...] = ()


def window_of(
    pool: Pool,
    since: datetime,
    until: datetime,
    *,
    apart: Project | None = None,
    most_jobs: int | None = None,
) -> Window:
    """What ran, how long it ran, how long it might have, and for whom.

    The project `apart` is a row of its own below its team; of more than `most_jobs` the newest.
    """
    node_count, per_node = _size_of(pool)
    ended = Job.objects.filter(
        pool=pool,
        queued_at__gte=since,
        queued_at__lt=until,
        started_at__isnull=False,
        ended_at__isnull=False,
    ).order_by("queued_at", "id")
    fields = ("queued_at", "started_at", "ended_at", "nodes", "gpus_per_node", "time_limit_s")
    asked = ended.values_list(*fields, "project__team__slug", "project_id")
    if most_jobs is not None:
        asked = asked.reverse()[:most_jobs]
    every = sorted(asked, key=lambda row: row[0])
    rows = [row for row in every if 0 < row[3] * row[4] <= node_count * per_node]
    names = tuple(sorted({row[6] for row in rows} | ({apart.team.slug} if apart else set())))
    row_of = {name: number for number, name in enumerate(names)}
    parents = (NONE,) * len(names)
    team = [row_of[row[6]] for row in rows]
    if apart is not None:
        team = [
            len(names) if row[7] == apart.pk else number
            for row, number in zip(rows, team, strict=True)
        ]
        parents = (*parents, row_of[apart.team.slug])
        names = (*names, apart.path)
    workload = Workload(
        gpus_per_node=per_node,
        submit_s=floats([(row[0] - since).total_seconds() for row in rows]),
        run_s=floats([max(1.0, (row[2] - row[1]).total_seconds()) for row in rows]),
        declared_s=floats([row[5] for row in rows]),
        gpus=ints([row[3] * row[4] for row in rows]),
        team=ints(team),
    )
    return Window(workload, node_count, names, len(every) - len(rows), parents)


def _size_of(pool: Pool) -> tuple[int, int]:
    """Nodes that have GPUs, and the most GPUs one of them has."""
    nodes = Node.objects.filter(pool=pool).exclude(state=NodeState.RETIRED)
    present = Device.objects.filter(node__in=nodes, is_present=True, in_service=True).values_list(
        "node_id"
    )
    counts: dict[int, int] = {}
    for (node,) in present:
        counts[node] = counts.get(node, 0) + 1
    return len(counts), max(counts.values(), default=1)
