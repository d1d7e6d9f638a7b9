"""Headroom: GPUs that jobs of the production tier can always have, lent to others meanwhile.

They are free, or held by production, or by jobs that can be stopped at once for it. So all others,
who could not be stopped, are kept from taking the last of them.
"""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.keeping.bookings import held_by
from scheduler.engine.plan import SlotKind
from scheduler.engine.snapshot import NONE, Flags, Ints, flags, ints


def keep_headroom(board: Board) -> None:
    """Choose nodes for it, and keep of them what is neither lent nor in use. After the bookings.

    Those that offer most come first. A start leaves these as they are, so the next cycle finds at
    least as much; where less is there than wanted, all is kept until enough has come free.
    """
    snapshot, headroom = board.snapshot, board.snapshot.headroom
    if not len(headroom.id):
        return
    lent = held_by(board, snapshot.held.uses_headroom)
    for row in range(len(headroom.id)):
        pool, model = int(headroom.pool[row]), int(headroom.model[row])
        offered = board.accepts[model][snapshot.devices.model] & board.is_offered
        is_lent = np.append(snapshot.held.uses_headroom, False)[board.holder]
        counted = offered & (board.is_free | is_lent)
        size = len(snapshot.nodes.id)
        has = np.bincount(snapshot.devices.node[counted], minlength=size)
        in_use = np.bincount(snapshot.devices.node[offered & is_lent], minlength=size)
        has[~_is_open(board, pool)] = 0
        nodes, gpus = _chosen(ints(has), int(headroom.gpus[row]))
        need = _need(board, nodes, gpus)
        used = lent[:, nodes].copy()
        used[0] = in_use[nodes]
        free = np.array(
            [
                board.free_gpus[model][nodes],
                board.cpus_free[nodes],
                board.memory_free_mib[nodes],
                board.scratch_free_mib[nodes],
            ],
            dtype=np.int64,
        )
        board.keeping.enter(
            Kept(
                kind=SlotKind.HEADROOM,
                owner=row,
                pool=pool,
                nodes=nodes,
                need=need,
                from_s=snapshot.now_s,
                until_s=np.inf,
                free_then=free,
                used=used,
                model=model,
            )
        )


def _chosen(has: Ints, wanted: int) -> tuple[Ints, Ints]:
    """The nodes (rows, ascending) that offer most, and how many GPUs of each make up `wanted`."""
    order = np.lexsort((np.arange(len(has)), -has))
    before = np.cumsum(has[order]) - has[order]
    taken = np.clip(wanted - before, 0, has[order])
    rows = order[taken > 0]
    by_row = np.argsort(rows)
    return ints(rows[by_row]), ints(taken[taken > 0][by_row])


def _is_open(board: Board, pool: int) -> Flags:
    """Nodes of the pool that are not in maintenance or booked as a whole now."""
    now_s = board.snapshot.now_s
    is_open = board.in_pool[pool].copy()
    for one in board.keeping.of_pool(pool):
        if one.is_whole and one.from_s <= now_s < one.until_s:
            is_open[one.nodes] = False
    return flags(is_open)


def _need(board: Board, nodes: Ints, gpus: Ints) -> Ints:
    """These GPUs, and as large a part of cpus and memory."""
    table = board.snapshot.nodes
    whole = np.maximum(board.present_gpus[NONE][nodes], 1)
    cpus, memory = (
        total[nodes] * gpus // whole for total in (table.cpus_total, table.memory_total_mib)
    )
    return np.array([gpus, cpus, memory, np.zeros_like(gpus)], dtype=np.int64)
