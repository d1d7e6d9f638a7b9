"""What would have to be copied to each node before a job finds its data there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scheduler.engine.snapshot import Ints, ints
from scheduler.models import Dataset, DatasetCopy, Node


def load_missing(sets: Iterable[tuple[str, ...]], node_ids: Sequence[int]) -> dict[str, Any]:
    """The table of the snapshot, by set of data sets and node; three queries if there are any sets.

    A data set that was removed since a job named it is missing nowhere.
    """
    rows = list(sets)
    if not rows:
        return {}
    node_row = {pk: row for row, pk in enumerate(node_ids)}
    size_of = dict(Dataset.objects.order_by().values_list("name", "size_mib"))
    missing: dict[str, Ints] = {
        name: ints(np.full(len(node_row), size_mib)) for name, size_mib in size_of.items()
    }
    copies = DatasetCopy.objects.filter(dataset__name__in={n for names in rows for n in names})
    for name, node, held_mib in copies.order_by().values_list("dataset__name", "node", "held_mib"):
        if node in node_row:
            lacks = 0 if held_mib is None else missing[name][node_row[node]] - held_mib
            missing[name][node_row[node]] = max(0, lacks)
    wanted = {name for names in rows for name in names} & missing.keys()
    told = Node.objects.filter(data__isnull=False).order_by().values_list("pk", "data")
    for node, data in told:
        for name, held_mib in data["sets"] if data and node in node_row else ():
            if name in wanted:
                column, at = missing[name], node_row[node]
                column[at] = min(int(column[at]), max(0, size_of[name] - held_mib))
    nowhere = ints(np.zeros(len(node_row)))
    table = [sum((missing.get(name, nowhere) for name in names), nowhere) for names in rows]
    return {"missing_mib": ints(table).reshape(len(rows), len(node_row))}
