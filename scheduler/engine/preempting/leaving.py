"""The cluster once some jobs have left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.snapshot import NONE, Snapshot, ints


def without(
    snapshot: Snapshot, stopped: set[int], given_back: Sequence[tuple[int, set[int]]] = ()
) -> Snapshot:
    """The snapshot without what these jobs hold; others (ids) have `given_back` these node rows."""
    held, devices, nodes = snapshot.held, snapshot.devices, snapshot.nodes
    stays = ~np.isin(held.job, list(stopped))
    for job, rows in given_back:
        stays &= (held.job != job) | ~np.isin(held.node, list(rows))
    new_row = np.append(np.where(stays, np.cumsum(stays) - 1, NONE), NONE)
    size = len(nodes.id)
    freed_cpus = np.bincount(held.node[~stays], weights=held.cpus[~stays], minlength=size)
    freed_mib = np.bincount(held.node[~stays], weights=held.memory_mib[~stays], minlength=size)
    return replace(
        snapshot,
        nodes=replace(
            nodes,
            cpus_free=nodes.cpus_free + freed_cpus.astype(np.int64),
            memory_free_mib=nodes.memory_free_mib + freed_mib.astype(np.int64),
        ),
        devices=replace(devices, holder=ints(new_row[devices.holder])),
        slices=replace(snapshot.slices, holder=ints(new_row[snapshot.slices.holder])),
        held=held.take(stays),
        tokens=snapshot.tokens.take(~np.isin(snapshot.tokens.job, list(stopped))),
    )
