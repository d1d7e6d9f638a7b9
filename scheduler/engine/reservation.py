"""Room that is kept for a job that has waited too long, and when it can start there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.supply import is_picky
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.shaping.nodes import group_of, soonest_nodes
from scheduler.engine.shaping.topology import REQUIRED
from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, Request, flags, ints, running_sum


@dataclass(frozen=True, slots=True, eq=False)
class EarliestStart:
    """`nodes` (rows) hold the whole job at `start_s` at the latest, if nothing new takes them."""

    nodes: Ints
    start_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The waiting job (row) for which a pool keeps room."""

    row: int
    tier: int
    start: EarliestStart


def earliest_start(board: Board, request: Request) -> EarliestStart | None:
    """The nodes where the job can start soonest; None if time limits alone never free enough."""
    chosen, start_s = ints([]), board.snapshot.now_s
    for shape in request.shapes():
        ready_s = ready_times(board, shape)
        ready_s[chosen] = np.inf
        if request.part_gpus and request.topology and len(chosen):
            _only_beside(board, request, chosen, ready_s)
        soonest = soonest_nodes(board.snapshot, shape, ready_s)
        if soonest is None:
            return None
        start_s = max(start_s, float(ready_s[soonest].max()))
        chosen = np.concatenate([chosen, np.sort(soonest)])
    start_s = max(start_s, board.licences.ready_s(request))
    return EarliestStart(chosen, start_s) if np.isfinite(start_s) else None


def _only_beside(board: Board, request: Request, chosen: Ints, ready_s: Floats) -> None:
    """The smaller share of a gang that has to be in one rack goes there too."""
    if request.spread == REQUIRED:
        group = group_of(board.snapshot, request)
        ready_s[group != group[chosen[0]]] = np.inf


def keep_for(board: Board, request: Request, start: EarliestStart) -> None:
    """Limit what others may take of these nodes to what the job leaves over when it starts.

    Chosen anew in every cycle, yet its start never moves back: the nodes of the last cycle can
    still be chosen, since whatever was let onto them leaves room for the job at that time.
    """
    node, cpus, memory_mib, until_s = board.holders()
    gone = until_s <= start.start_s
    size = len(board.snapshot.nodes.id)
    gpus = _held_gpus(board, request, len(node))

    def at_start(free: Ints, held: Ints, need: int) -> Ints:
        freed = np.bincount(node[gone], weights=held[gone], minlength=size)
        return ints(free + freed.astype(np.int64) - need)

    board.reserved_pools.add(request.pool)
    board.licences.keep(request, start.start_s)
    board.is_kept[start.nodes] = True
    board.kept_tenant[start.nodes] = request.tenant
    scratch_mib = board.held_scratch_mib()
    first = 0
    for shape in request.shapes():
        kept = start.nodes[first : first + shape.nodes]
        first += shape.nodes
        spare_gpus = at_start(_whole_free(board, request), gpus, shape.gpus)
        board.spare_gpus[kept] = spare_gpus[kept]
        board.spare_cpus[kept] = at_start(board.cpus_free, cpus, shape.cpus)[kept]
        spare_mib = at_start(board.memory_free_mib, memory_mib, shape.memory_mib)
        board.spare_memory_mib[kept] = spare_mib[kept]
        spare_scratch = at_start(board.scratch_free_mib, scratch_mib, shape.scratch_mib)
        board.spare_scratch_mib[kept] = spare_scratch[kept]
        if request.is_exclusive:
            board.spare_gpus[kept] = NONE


def ready_times(board: Board, request: Request) -> Floats:
    """By node: when it holds one share of the request, taking time limits as ends; inf for never.

    Equals: walk the ends of each node's placements in order until enough is free.
    """
    now_s = board.snapshot.now_s
    capable = without_avoided(board, request, is_capable(board, request, board.offered_gpus))
    ready_s = np.full(len(capable), np.inf)
    node, cpus, memory_mib, until_s = board.holders()
    order = np.lexsort((until_s, node))
    node, until_s = node[order], np.maximum(until_s[order], now_s)
    gpus = _held_gpus(board, request, len(node))[order]
    free_gpus = _whole_free(board, request)
    scratch_mib = board.held_scratch_mib()[order]
    enough = (
        (free_gpus[node] + running_sum(gpus, node) >= request.gpus)
        & (board.cpus_free[node] + running_sum(cpus[order], node) >= request.cpus)
        & (board.memory_free_mib[node] + running_sum(memory_mib[order], node) >= request.memory_mib)
        & (board.scratch_free_mib[node] + running_sum(scratch_mib, node) >= request.scratch_mib)
    )
    if request.is_exclusive or board.is_closed.any():
        enough &= _is_last(node) | ~(board.is_closed[node] | request.is_exclusive)
    np.minimum.at(ready_s, node[enough], until_s[enough])
    ready_s[board.fits(request, past_reservations=True)] = now_s
    ready_s[~capable] = np.inf
    return ready_s


def _is_last(node: Ints) -> Flags:
    """Of rows sorted by node, the last of each."""
    return flags(np.diff(node, append=NONE) != 0)


def _whole_free(board: Board, request: Request) -> Ints:
    """By node, devices that nobody holds a part of, so that a share may count on one as well."""
    if not request.is_share and not is_picky(request) and not board.cards.matter:
        return ints(board.free_gpus[request.model])
    node = board.snapshot.devices.node[board.is_free & board.may_take(request)]
    return ints(np.bincount(node, minlength=len(board.changes)))


def _held_gpus(board: Board, request: Request, holders: int) -> Ints:
    """Devices for the request that are offered once their last holder is gone, by holder row."""
    holder = board.holder
    if board.cards.matter:
        # Where other tenants are, the card is free when the last of its holders is gone.
        last = board.cards.last_holders(holder, board.holders()[3])
        holder = ints(np.where(board.cards.allow(request), holder, last))
    counted = (holder != NONE) & board.is_offered & board.may_serve(request)
    return ints(np.bincount(holder[counted], minlength=holders))
