"""Reasons that lie in the nodes of a pool and hold whatever becomes free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import (
    cpu_words,
    gpu_words,
    model_words,
    name_words,
    size_words,
)
from scheduler.engine.placement import has_nodes, is_capable
from scheduler.engine.snapshot import NODE_STATES, NONE, Flags, Request
from scheduler.states import NodeState


def find_infeasible(case: Case) -> Finding | None:
    """Too few nodes could hold a share even if everything were empty and in order."""
    # What a booking has now says nothing about ever.
    board, request = case.board, replace(case.request, booking=NONE)
    anywhere = board.in_pool[request.pool]
    if has_nodes(board, request, board.present_gpus, anywhere):
        return None
    ever = is_capable(board, request, board.present_gpus)
    return Finding({**name_words(board, request), "largest": _largest(board, request, ever)})


def find_closed(case: Case) -> Finding | None:
    """Its queue is paused."""
    if not case.board.snapshot.queue_is_paused[case.request.queue]:
        return None
    return Finding(name_words(case.board, case.request))


def find_unhealthy(case: Case) -> Finding | None:
    """Enough nodes exist, too few of them take work now."""
    board, request = case.board, replace(case.request, booking=NONE)
    takes_work = board.snapshot.nodes.takes_work
    if board.is_all_in_order or has_nodes(board, request, board.offered_gpus, takes_work):
        return None
    return Finding({**name_words(board, request), **_nodes_down(board, request)})


# The one reason for which a node that is ready takes no work.
_KEPT_BACK = "kept back until every node has said, after a restore, what runs there"


def _largest(board: Board, request: Request, capable: Flags) -> str:
    """The node of the pool that comes closest, in words, and how many hold one share."""
    nodes = board.snapshot.nodes
    rows = np.flatnonzero(board.in_pool[request.pool])
    if not len(rows):
        return "nothing, because the pool has no nodes yet"
    if request.is_share and not board.shares_cards(request.model)[rows].any():
        return "no GPU that may be shared"
    gpus = board.present_gpus[request.model]
    best = rows[np.lexsort((nodes.memory_total_mib[rows], nodes.cpus_total[rows], gpus[rows]))[-1]]
    words = gpu_words(int(gpus[best]), model_words(board, request))
    size = size_words(int(nodes.memory_total_mib[best]))
    words += f", {cpu_words(int(nodes.cpus_total[best]))} and {size}"
    count = int(np.count_nonzero(capable))
    if count:
        words += f", and only {count} {'nodes hold' if count > 1 else 'node holds'} one share"
    return words


def _nodes_down(board: Board, request: Request) -> dict[str, object]:
    """How many nodes of the pool do not offer all they have, and why."""
    nodes = board.snapshot.nodes
    here = board.in_pool[request.pool]
    closed = here & ~nodes.takes_work
    counts = np.bincount(nodes.state[closed], minlength=len(NODE_STATES))
    names = [_KEPT_BACK if one is NodeState.READY else str(one) for one in NODE_STATES]
    words = [f"{count} {names[s]}" for s, count in enumerate(counts.tolist()) if count]
    gpus_missing = board.present_gpus[NONE] - board.offered_gpus[NONE]
    broken = here & nodes.takes_work & (gpus_missing > 0)
    if broken.any():
        words.append(f"{int(np.count_nonzero(broken))} with GPUs out of order")
    return {
        "nodes": int(np.count_nonzero(here)),
        "down": int(np.count_nonzero(closed | broken)),
        "states": ", ".join(words),
    }
