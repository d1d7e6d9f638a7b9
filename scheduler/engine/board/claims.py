"""What the snapshot's claims keep for jobs that others make room for."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from scheduler.engine.snapshot import NONE, Ints, Snapshot, ints


class Keeper(Protocol):
    """A board, as far as claims go."""

    snapshot: Snapshot

    def keep(
        self, node: int, device_rows: Ints, *, cpus: int, memory_mib: int, until_s: float
    ) -> None: ...


def keep_claims(board: Keeper) -> None:
    """Keep what the snapshot's claims name, less what those who leave give back."""
    claims, devices, held = board.snapshot.claims, board.snapshot.devices, board.snapshot.held
    if not len(claims.job):
        return
    size = len(board.snapshot.nodes.id)
    leaving = np.unique(devices.holder[(devices.claim != NONE) & (devices.holder != NONE)])
    cpus = np.bincount(held.node[leaving], weights=held.cpus[leaving], minlength=size)
    mib = np.bincount(held.node[leaving], weights=held.memory_mib[leaving], minlength=size)
    for row, node in enumerate(claims.node.tolist()):
        freed_cpus = min(int(cpus[node]), int(claims.cpus[row]))
        freed_mib = min(int(mib[node]), int(claims.memory_mib[row]))
        cpus[node] -= freed_cpus
        mib[node] -= freed_mib
        board.keep(
            node,
            ints(np.flatnonzero(devices.claim == row)),
            cpus=int(claims.cpus[row]) - freed_cpus,
            memory_mib=int(claims.memory_mib[row]) - freed_mib,
            until_s=float(claims.until_s[row]),
        )
