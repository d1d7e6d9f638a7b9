"""When and where a job that has to wait can start at the latest, and the room kept for it then.

With several heads this is conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001,
section 2): each has a planned start, and others may pass only if none of them moves; with one it is
EASY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.amounts import hold, need_of
from scheduler.engine.board.kept import Kept
from scheduler.engine.freeing import Freeing, ready_times
from scheduler.engine.gang import shares_of
from scheduler.engine.plan import SlotKind
from scheduler.engine.shaping.nodes import (
    group_of,
    is_one_group,
    soonest_group,
    soonest_nodes,
)
from scheduler.engine.shaping.sizes import least_size
from scheduler.engine.snapshot import (
    NONE,
    Flags,
    Floats,
    Ints,
    Request,
    floats,
    ints,
)

# Cells of nodes with something kept times moments looked at; beyond that fewer moments are, which
# may plan a start later than need be, never earlier.
MAX_CELLS = 400_000
_SPAN = ("from_s", "until_s")
# Moments at which enough nodes are open, yet perhaps too far apart.
MOST_MOMENTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class EarliestStart:
    """`nodes` (rows) hold the whole job at `start_s` at the latest, if nothing new takes them."""

    nodes: Ints
    start_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The waiting job (row) for which a pool keeps room; it is gone again by `until_s`."""

    row: int
    tier: int
    start: EarliestStart
    until_s: float = np.inf


def earliest_start(
    board: Board, request: Request, stay_s: float = np.inf, beside: Sequence[Kept] = ()
) -> EarliestStart | None:
    """The nodes where the job can start soonest; None if time limits alone never free enough.

    It stays for `stay_s` and leaves all of `beside` what it needs.
    """
    licensed_s = board.licences.ready_s(request)
    if not np.isfinite(licensed_s):
        return None
    ready_s = [ready_times(board, shape) for shape in request.shapes()]
    if not beside:
        soonest = _soonest(board, request, ready_s)
        if soonest is None:
            return None
        return EarliestStart(soonest.nodes, max(soonest.start_s, licensed_s))
    claimed = np.unique(np.concatenate([one.nodes for one in beside]))
    moments = _moments(board, ready_s, claimed, beside)
    moments = np.unique(np.append(moments[moments > licensed_s], licensed_s))
    open_at = [
        _open_at(board, shape, ready, claimed, moments, stay_s, beside)
        for shape, ready in zip(request.shapes(), ready_s, strict=True)
    ]
    for moment in _likely(board, request, ready_s, claimed, moments, open_at)[:MOST_MOMENTS]:
        then_s = [ready.copy() for ready in ready_s]
        for ready, is_open in zip(then_s, open_at, strict=True):
            ready[claimed[~is_open[:, moment]]] = np.inf
            ready[ready > moments[moment]] = np.inf
        found = _soonest(board, request, then_s)
        if found is not None:
            return EarliestStart(found.nodes, float(moments[moment]))
    return None


def can_start(
    board: Board, request: Request, start: EarliestStart, stay_s: float, beside: Sequence[Kept]
) -> bool:
    """Whether the job can start on these very nodes then, and leave all of `beside` its own."""
    moment, first = floats([start.start_s]), 0
    for shape in request.shapes():
        nodes = np.sort(start.nodes[first : first + shape.nodes])
        first += shape.nodes
        ready_s = ready_times(board, shape)
        if not _open_at(board, shape, ready_s, nodes, moment, stay_s, beside).all():
            return False
    return True


def kept_for(board: Board, request: Request, head: Head, *, is_promise: bool = False) -> Kept:
    """What is kept for a head: its shares, from its start until it is gone."""
    order = np.argsort(head.start.nodes)
    nodes, shares = head.start.nodes[order], shares_of(request, head.start.nodes)
    need = np.array([need_of(shape) for _, shape in shares], dtype=np.int64).T
    from_s = head.start.start_s
    return Kept(
        kind=SlotKind.HEAD,
        owner=head.row,
        pool=request.pool,
        nodes=nodes,
        need=need[:, order],
        from_s=from_s,
        until_s=head.until_s,
        free_then=Freeing.of(board, request).at(nodes, floats([from_s]))[:, :, 0],
        is_promise=is_promise,
        is_whole=request.is_exclusive,
        tenant=request.tenant,
        model=request.model,
    )


def _open_at(
    board: Board,
    shape: Request,
    ready_s: Floats,
    nodes: Ints,
    moments: Floats,
    stay_s: float,
    beside: Sequence[Kept],
) -> Flags:
    """Node by moment: whether one share that starts then can stay. Nodes and moments ascend."""
    is_open: Flags = np.asarray(np.less_equal.outer(ready_s[nodes], moments))
    free = Freeing.of(board, shape).at(nodes, moments)
    # Moments ascend, so what holds for a while holds at a row of them.
    begins, ends = (floats([getattr(one, name) for one in beside]) for name in _SPAN)
    active = np.searchsorted(moments, begins), np.searchsorted(moments, ends)
    crossed = np.minimum(active[0], np.searchsorted(moments + stay_s, begins, side="right"))
    shared = np.zeros_like(is_open)
    others = frozenset(beside)
    place = np.full(len(ready_s), NONE)
    place[nodes] = np.arange(len(nodes))
    places = [place[one.nodes] for one in beside]
    for one, at, first, last in zip(beside, places, *active, strict=True):
        if first < last:
            taken, here = one.need[:, at != NONE], at[at != NONE]
            taken[0] *= board.keeping.may_meet(one, shape.model)
            free[:, here, first:last] -= taken[:, :, None]
            shared[here[(taken > 0).any(axis=0)], first:last] = True
    # Where nothing is kept then, being ready is enough.
    is_open &= ~shared | hold(free, shape)
    for one, at, first, begin, end in zip(beside, places, crossed, *active, strict=True):
        if one.is_whole or shape.is_exclusive or _minds(board, shape, one):
            is_open[at[at != NONE], first : max(begin, end)] = False
        elif first < begin:
            meets = board.keeping.may_meet(one, shape.model)
            tight = at[~hold(one.spare(others), shape, in_gpus=meets)]
            is_open[tight[tight != NONE], first:begin] = False
    return is_open


def _minds(board: Board, shape: Request, one: Kept) -> bool:
    """On cut cards, what is to spare for one tenant is not for another."""
    meets = board.keeping.may_meet(one, shape.model)
    return board.cards.matter and meets and one.tenant != shape.tenant


def _moments(
    board: Board, ready_s: Sequence[Floats], claimed: Ints, beside: Sequence[Kept]
) -> Floats:
    """When a start may become possible: something ends, or is kept no more."""
    now_s = board.snapshot.now_s
    holder, _, _, until_s = board.holders()
    ends_s = np.concatenate([*ready_s, until_s[np.isin(holder, claimed)]])
    ends_s = np.unique(ends_s[np.isfinite(ends_s) & (ends_s > now_s)])
    most = max(1, MAX_CELLS // max(1, len(claimed)))
    if len(ends_s) > most:
        ends_s = ends_s[np.linspace(0, len(ends_s) - 1, most).astype(np.int64)]
    gone_s = [one.until_s for one in beside if now_s < one.until_s < np.inf]
    return np.unique(np.concatenate([[now_s], ends_s, gone_s]))


def _likely(
    board: Board,
    request: Request,
    ready_s: Sequence[Floats],
    claimed: Ints,
    moments: Floats,
    open_at: Sequence[Flags],
) -> Ints:
    """The moments at which enough nodes are open, wherever they are."""
    elsewhere = np.ones(len(ready_s[0]), dtype=np.bool_)
    elsewhere[claimed] = False
    counts = [
        np.searchsorted(np.sort(ready[elsewhere]), moments, side="right") + is_open.sum(axis=0)
        for ready, is_open in zip(ready_s, open_at, strict=True)
    ]
    size = least_size(board.snapshot, request)
    # What holds a whole share holds the part too, so the part needs one node more.
    return ints(np.flatnonzero((counts[0] >= size) & (counts[-1] >= size + len(counts) - 1)))


def _soonest(board: Board, request: Request, ready_s: Sequence[Floats]) -> EarliestStart | None:
    """The nodes that are ready first. Changes `ready_s`."""
    chosen, start_s = ints([]), board.snapshot.now_s
    if is_one_group(request):
        group = soonest_group(board.snapshot, request, ready_s)
        if group == NONE:
            return None
        for ready in ready_s:
            ready[group_of(board.snapshot, request) != group] = np.inf
    for shape, ready in zip(request.shapes(), ready_s, strict=True):
        ready[chosen] = np.inf
        soonest = soonest_nodes(board.snapshot, shape, ready)
        if soonest is None:
            return None
        start_s = max(start_s, float(ready[soonest].max()))
        chosen = np.concatenate([chosen, np.sort(soonest)])
    return EarliestStart(chosen, start_s)
