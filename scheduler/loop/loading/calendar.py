"""Maintenance windows."""

from __future__ import annotations

from datetime import datetime

from scheduler.engine.snapshot import Windows, floats, ints
from scheduler.loop.loading.columns import Columns
from scheduler.models import MaintenanceWindow


def load_windows(nodes: Columns, now: datetime) -> Windows:
    """One row per window that is not over and node of it; `nodes` as of `load_nodes`."""
    planned = MaintenanceWindow.objects.filter(until_at__gt=now, cancelled_at=None).order_by("pk")
    rows = [
        (pk, row, from_at.timestamp(), until_at.timestamp())
        for pk, pool, named, from_at, until_at in planned.values_list(
            "pk", "pool_id", "nodes", "from_at", "until_at"
        )
        for row, (node, its_pool) in enumerate(zip(nodes["pk"], nodes["pool_id"], strict=True))
        if its_pool == pool and (not named or node in named)
    ]
    number, node, begin, end = list(zip(*rows, strict=True)) or [()] * 4
    return Windows(ints(number), ints(node), floats(begin), floats(end))
