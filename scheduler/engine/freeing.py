"""When what others hold of nodes is free again, time limits taken as ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.cards import later
from scheduler.engine.board.supply import is_picky
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.snapshot import (
    NONE,
    Flags,
    Floats,
    Ints,
    Request,
    flags,
    ints,
    running_sum,
)


@dataclass(frozen=True, slots=True, eq=False)
class Freeing:
    """What is free for a request now, by node, and what each holder gives back in the end; both
    by amount first. It holds until something starts."""

    now: Ints
    then: Ints
    holder: Ints
    until_s: Floats

    @classmethod
    def of(cls, board: Board, request: Request) -> Freeing:
        """For devices that serve the request; the rest is the same for all."""
        holder, cpus, memory_mib, until_s = board.holders()
        then = (_held_gpus(board, request, len(holder)), cpus, memory_mib, board.held_scratch_mib())
        now = (
            _whole_free(board, request),
            board.cpus_free,
            board.memory_free_mib,
            board.scratch_free_mib,
        )
        return cls(np.array(now), np.array(then), holder, until_s)

    def at(self, nodes: Ints, moments: Floats) -> Ints:
        """Amounts free on `nodes` (rows, ascending) by moment, what is kept aside.

        Jobs are taken to end at their limits, those beyond it now.
        """
        here = np.flatnonzero(np.isin(self.holder, nodes))
        amounts = np.zeros((len(self.now), len(nodes), len(moments) + 1), dtype=np.int64)
        amounts[:, :, 0] = self.now[:, nodes]
        if len(here):
            at = np.searchsorted(nodes, self.holder[here])
            when = np.searchsorted(moments, self.until_s[here], side="left")
            for axis, then in enumerate(self.then):
                np.add.at(amounts[axis], (at, when), then[here])
        return np.asarray(amounts.cumsum(axis=2)[:, :, :-1])


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
    ready_s[board.fits(request)] = now_s
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
        until_s = board.holders()[3]
        holder = later(holder, board.cards.last_in_the_way(request, until_s), until_s)
    counted = (holder != NONE) & board.is_offered & board.may_serve(request)
    return ints(np.bincount(holder[counted], minlength=holders))
