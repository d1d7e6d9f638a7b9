"""Which nodes a gang takes, out of those with room for a share: how many, in which racks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from scheduler.engine.shaping.sizes import least_size, sizes_of
from scheduler.engine.shaping.topology import PREFERRED, REQUIRED, count_groups, split_gang
from scheduler.engine.snapshot import NONE, TOPOLOGIES, Floats, Ints, Request, Snapshot, ints

# The best nodes for so many shares of a request, out of these rows, the best first.
Rank: TypeAlias = Callable[[Request, Ints], Ints]
_RACK = TOPOLOGIES.index("rack")


def group_of(snapshot: Snapshot, request: Request) -> Ints:
    """By node the rack or block that the request asks about, -1 for unknown."""
    nodes = snapshot.nodes
    return nodes.rack if request.topology == _RACK else nodes.block


def take_nodes(snapshot: Snapshot, request: Request, rows: Ints, rank: Rank) -> Ints | None:
    """The best of `rows` for all shares, as many as the job can have now; None if too few."""
    for size in sizes_of(snapshot, request, len(rows)):
        sized = request if size == request.nodes else replace(request, nodes=size)
        taken = _take(snapshot, sized, rows, rank)
        if taken is not None:
            return taken
    return None


def holds_shape(snapshot: Snapshot, request: Request, rows: Ints) -> bool:
    """Whether these nodes, each with room for a share, hold the whole job."""
    sizes = sizes_of(snapshot, request, len(rows))
    if not request.topology or request.spread == PREFERRED:
        return bool(sizes)
    counts = count_groups(group_of(snapshot, request), rows)
    return any(split_gang(counts, size, request.spread) is not None for size in sizes)


def holds_shapes(snapshot: Snapshot, request: Request, rows: Sequence[Ints]) -> bool:
    """Whether these nodes hold the whole job; `rows` by its shapes, each with room for one share.

    What holds a whole share holds the smaller one too, so that one takes one node more; any node
    of a known place, unless all shares have to be in one group.
    """
    whole, *part = together(snapshot, request, rows)
    if not holds_shape(snapshot, request.shapes()[0], whole):
        return False
    if not part:
        return True
    is_anywhere = not request.topology or request.spread == PREFERRED
    place = part[0] if is_anywhere else group_of(snapshot, request)[part[0]]
    return int(np.count_nonzero(place != NONE)) > request.nodes


def together(snapshot: Snapshot, request: Request, rows: Sequence[Ints]) -> Sequence[Ints]:
    """Of the rows of each shape those in groups that hold all shapes, if it has to be one group."""
    if not is_one_group(request):
        return rows
    group = group_of(snapshot, request)
    whole, part = (count_groups(group, here) for here in rows)
    holds = (whole >= request.nodes) & (part > request.nodes)
    return [
        ints(here[group[here] != NONE][holds[group[here][group[here] != NONE]]]) for here in rows
    ]


def is_one_group(request: Request) -> bool:
    """Whether a smaller share has to be in the rack or block of the others."""
    return bool(request.part_gpus and request.topology) and request.spread == REQUIRED


def soonest_group(snapshot: Snapshot, request: Request, ready_s: Sequence[Floats]) -> int:
    """The group where a gang with a smaller share, all in one, can start first; -1 for none.

    `ready_s`: by shape and node, when it holds one share.
    """
    group = group_of(snapshot, request)
    soonest_s = np.zeros(int(group.max(initial=NONE)) + 1)
    for ready, need in zip(ready_s, (request.nodes, request.nodes + 1), strict=True):
        known = np.flatnonzero((group != NONE) & np.isfinite(ready))
        known = known[np.lexsort((ready[known], group[known]))]
        counts = count_groups(group, ints(known))
        enough_s = np.full(len(counts), np.inf)
        holds = counts >= need
        enough_s[holds] = ready[known[(np.cumsum(counts) - counts)[holds] + need - 1]]
        soonest_s = np.maximum(soonest_s, enough_s)
    return int(soonest_s.argmin()) if np.isfinite(soonest_s).any() else NONE


def soonest_nodes(snapshot: Snapshot, request: Request, ready_s: Floats) -> Ints | None:
    """The nodes on which the whole job can start soonest; None if it never can.

    `ready_s`: by node, when it holds one share; infinite for never. An elastic job is expected
    with as few nodes as it can have. More nodes are ready later, never fewer, so that the first
    moment at which they hold the job is found by halving.
    """
    rows = ints(np.flatnonzero(np.isfinite(ready_s)))
    rows = ints(rows[np.lexsort((rows, ready_s[rows]))])
    size = least_size(snapshot, request)
    least = replace(request, nodes=size, nodes_min=0, sizes=NONE)
    if not holds_shape(snapshot, least, rows):
        return None
    if not request.topology or request.spread == PREFERRED:
        return ints(rows[:size])
    low, high = size, len(rows)
    while low < high:
        middle = (low + high) // 2
        if holds_shape(snapshot, least, ints(rows[:middle])):
            high = middle
        else:
            low = middle + 1
    return _take(snapshot, least, ints(rows[:high]), lambda _, among: among)


def _take(snapshot: Snapshot, request: Request, rows: Ints, rank: Rank) -> Ints | None:
    if not request.topology:
        return rank(request, rows)[: request.nodes]
    if request.spread == PREFERRED:
        return _near(snapshot, request, rows, rank)
    group = group_of(snapshot, request)
    shares = split_gang(count_groups(group, rows), request.nodes, request.spread)
    return None if shares is None else _from_groups(request, rows, group, shares, rank)


def _near(snapshot: Snapshot, request: Request, rows: Ints, rank: Rank) -> Ints:
    """As few racks as possible, in as few blocks as possible; nodes of unknown place last."""
    nodes = snapshot.nodes
    if request.topology != _RACK:
        return _fewest_groups(request, rows, nodes.block, rank)

    def by_rack(part: Request, rows: Ints) -> Ints:
        return _fewest_groups(part, rows, nodes.rack, rank)

    # One rack that holds it beats any choice of blocks.
    counts = count_groups(nodes.rack, rows)
    if int(counts.max(initial=0)) >= request.nodes:
        return by_rack(request, rows)
    return _fewest_groups(request, rows, nodes.block, by_rack)


def _fewest_groups(request: Request, rows: Ints, group: Ints, rank: Rank) -> Ints:
    counts = count_groups(group, rows)
    known = min(request.nodes, int(counts.sum()))
    shares = split_gang(counts, known, PREFERRED) if known else None
    taken = ints([]) if shares is None else _from_groups(request, rows, group, shares, rank)
    missing = request.nodes - len(taken)
    if not missing:
        return taken
    nowhere = rows[group[rows] == NONE]
    return np.concatenate([taken, rank(replace(request, nodes=missing), nowhere)[:missing]])


def _from_groups(request: Request, rows: Ints, group: Ints, shares: Ints, rank: Rank) -> Ints:
    taken = []
    for number in np.flatnonzero(shares).tolist():
        share = int(shares[number])
        here = ints(rows[group[rows] == number])
        taken.append(rank(replace(request, nodes=share), here)[:share])
    return np.concatenate(taken)
