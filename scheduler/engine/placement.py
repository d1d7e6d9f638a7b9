"""Where one share of a job goes: hard constraints answer yes or no, soft ones score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board, Supply
from scheduler.engine.board.kept import Kept
from scheduler.engine.shaping.nodes import holds_shape, holds_shapes
from scheduler.engine.snapshot import (
    NONE,
    WHOLE_MILLI,
    Devices,
    Flags,
    Ints,
    Request,
    Snapshot,
    floats,
    ints,
)


def is_capable(board: Board, request: Request, gpus: Supply) -> Flags:
    """Nodes of the pool that could hold one share if they were empty.

    `gpus` says which devices count, by model and node: `board.present_gpus` or `offered_gpus`.
    """
    nodes = board.snapshot.nodes
    return np.asarray(
        board.allows(request)
        & gpus.nodes
        & (gpus.of(request) >= request.gpus)
        & (nodes.cpus_total >= request.cpus)
        & (nodes.scratch_total_mib >= request.scratch_mib)
        & (nodes.memory_total_mib >= request.memory_mib)
        & (not request.is_share or board.shares_cards(request.model))
    )


def has_nodes(board: Board, request: Request, gpus: Supply, among: Flags) -> bool:
    """Whether enough of the nodes `among` could hold every share if they were empty."""
    able = [is_capable(board, shape, gpus) & among for shape in request.shapes()]
    return holds_shapes(board.snapshot, request, [ints(np.flatnonzero(one)) for one in able])


def eligible_nodes(
    board: Board, request: Request, beside: Sequence[Kept] = (), *, past_tenants: bool = False
) -> Flags:
    """Nodes that may hold one share now: room, right pool, and not where it just failed.

    Room for it and for all of `beside`, when that begins.

    The node where the job failed last is avoided only if enough others could hold it, so that a
    pool of one node does not wait for ever.
    """
    fit = board.fits(request, past_tenants=past_tenants)
    if beside:
        cut = board.cards.on_node if board.cards.matter else None
        elsewhere = _elsewhere(board, request, beside, past_tenants=past_tenants)
        fit &= board.keeping.allows(request, beside, cut, elsewhere)
    return without_avoided(board, request, fit)


def _elsewhere(
    board: Board, request: Request, beside: Sequence[Kept], *, past_tenants: bool
) -> Ints | None:
    """By node, the free devices for a share of models that none of `beside` has booked there; None
    if none is booked by its model. `pick_devices` takes just these."""
    booked = [one for one in beside if one.is_of_model]
    if not booked or request.is_share:
        return None
    devices, size = board.snapshot.devices, len(board.snapshot.nodes.id)
    is_booked = np.zeros((len(board.snapshot.models), size), dtype=np.bool_)
    for one in booked:
        is_booked[one.model, one.nodes] = True
    free = board.is_free & board.may_take(request, past_tenants=past_tenants)
    free &= ~is_booked[devices.model, devices.node]
    return ints(np.bincount(devices.node[free], minlength=size))


def without_avoided(board: Board, request: Request, chosen: Flags) -> Flags:
    """`chosen` less the node to avoid, if enough other nodes are capable of the request."""
    if request.avoid_node == NONE or not chosen[request.avoid_node]:
        return chosen
    capable = is_capable(board, request, board.offered_gpus)
    capable[request.avoid_node] = False
    if not holds_shape(board.snapshot, request, ints(np.flatnonzero(capable))):
        return chosen
    chosen = chosen.copy()
    chosen[request.avoid_node] = False
    return chosen


def rank_nodes(board: Board, request: Request, rows: Ints) -> Ints:
    """Node rows, the best first; at least as many as the request needs, if there are.

    Scores are vectors over `rows`, compared in this order:

    1. models in the order of preference, if the job has one;
    2. nodes where jobs failed lately come last;
    3. whole free nodes stay whole, for the jobs that need them;
    4. the share stays within one link group, or at least within one of the wider groups;
    5. the least has to be copied there first;
    6. best fit: the fewest devices, then cpus, are left over; of a shared device the least;
    7. the lower row, so that equal nodes are taken in a steady order.

    If the policy of the pool packs, it has the say after the second, and the fifth between equals.
    """
    merit = _merits(board, request, rows)
    packer = board.packers.get(request.pool)
    if packer is None:
        return _tightest(board, request, rows, merit)
    if merit is None:
        return packer.rank(request, rows)
    ranked = [ints([])]
    for level in np.unique(merit).tolist():
        here = ints(rows[merit == level])
        ranked.append(packer.rank(replace(request, nodes=len(here)), here))
    return np.concatenate(ranked)


def _tightest(board: Board, request: Request, rows: Ints, merit: Ints | None) -> Ints:
    free = board.free_gpus[NONE, rows]
    breaks_whole = (free == board.offered_gpus[NONE, rows]) & (free > request.gpus)
    splits_links = _splits_links(board, rows, request.gpus)
    cpus_left = board.cpus_free[rows] - request.cpus
    least_left = free - request.gpus
    if request.is_share:
        splits_links, least_left = np.zeros_like(splits_links), _least_rest(board, request)[rows]
    keys = [rows, cpus_left, least_left, splits_links, breaks_whole]
    missing = board.snapshot.missing_mib
    if request.dataset != NONE and missing is not None:
        keys.insert(3, missing[request.dataset, rows])
    if merit is not None:
        keys.append(merit)
    return ints(rows[np.lexsort(keys)])


def _merits(board: Board, request: Request, rows: Ints) -> Ints | None:
    """What comes before packing, the least first; None if all rows are alike."""
    if not request.prefers and not board.has_failures:
        return None
    snapshot = board.snapshot
    failures = snapshot.nodes.failures[rows]
    merit = ints(np.zeros(len(rows)))
    for place, model in enumerate(_preferred(snapshot, request)):
        if request.is_share:
            lacks = board.largest_share[model, rows] < request.gpu_milli
        else:
            lacks = board.free_gpus[model, rows] < request.gpus
        merit += (merit == place) & lacks
    merit = merit * (int(failures.max(initial=0)) + 1) + failures
    return merit if len(merit) and (merit != merit[0]).any() else None


def _preferred(snapshot: Snapshot, request: Request) -> tuple[int, ...]:
    """The request's models in the order of preference; none if it has none."""
    row = request.model - len(snapshot.models)
    return snapshot.model_sets[row] if request.prefers and row >= 0 else ()


def pick_devices(board: Board, request: Request, node: int) -> Ints:
    """Device rows of one share: from the tightest link group that holds it, else from the largest
    of the tightest wider group that does, else from the largest.

    A part of a device comes from the one with the least left over, unless the policy packs; of
    preferred models the first come first, and what others have booked by its model comes last; an
    exclusive job gets all devices of the node. The node must hold the request now.
    """
    devices = board.snapshot.devices
    here = board.devices_of(node)
    if request.is_exclusive:
        return ints(np.flatnonzero(board.is_free[here]) + here.start)
    if request.is_share:
        return _pick_shared(board, request, node)
    rows = np.flatnonzero(board.is_free[here] & board.may_take(request, here)) + here.start
    rows = _past_bookings(board, request, node, ints(rows))
    members = _preferred(board.snapshot, request)
    if len(board.link_levels) > 1 and not members:
        rows = _within_wide_group(devices, rows, request.gpus)
    groups = devices.link_group[rows]
    if not members and (groups == groups[:1]).all():
        return ints(rows[: request.gpus])
    wish = ints(np.zeros(len(rows)))
    for place, model in enumerate(members):
        wish[devices.model[rows] == model] = place
    # Devices of one model and one link group; with no preference, of one link group.
    _, group, size = np.unique(
        groups * (len(members) + 1) + wish, return_inverse=True, return_counts=True
    )
    size_here = size[group]
    if (size_here >= request.gpus).any():
        order = np.lexsort((rows, groups, size_here, wish, size_here < request.gpus))
    else:
        order = np.lexsort((rows, groups, -size_here, wish))
    return ints(np.sort(rows[order[: request.gpus]]))


def _past_bookings(board: Board, request: Request, node: int, rows: Ints) -> Ints:
    """Those of these free devices whose models nobody else has booked, as far as they are enough;
    else what is booked last as well."""
    begins = dict[int, float]()
    for one in board.keeping.at(request.pool, node):
        if one.is_of_model and not one.serves(request):
            begins[one.model] = min(one.from_s, begins.get(one.model, np.inf))
    if not begins:
        return rows
    begin = floats([begins.get(model, np.inf) for model in board.snapshot.devices.model[rows]])
    return ints(rows[begin >= np.sort(begin)[-request.gpus]])


def _pick_shared(board: Board, request: Request, node: int) -> Ints:
    here = board.devices_of(node)
    usable = board.has_room(request, here)
    packer = board.packers.get(request.pool)
    if packer is not None:
        row = packer.pick(request, node)
        if usable[row - here.start]:
            return ints([row])
    rest = board.free_milli[here] - request.gpu_milli
    return ints([here.start + int(np.where(usable, rest, WHOLE_MILLI).argmin())])


def _least_rest(board: Board, request: Request) -> Ints:
    """By node, the least that taking a part of one device leaves of it, in milli-GPU."""
    rest = board.free_milli - request.gpu_milli
    room = np.flatnonzero(board.has_room(request))
    least: Ints = np.full(len(board.snapshot.nodes.id), WHOLE_MILLI, dtype=np.int64)
    np.minimum.at(least, board.snapshot.devices.node[room], rest[room])
    return least


def _within_wide_group(devices: Devices, rows: Ints, gpus: int) -> Ints:
    """Those of these rows of a node that are in the tightest wider group which holds the share, if
    no link group does and one does; else all."""
    _, size = np.unique(devices.link_group[rows], return_counts=True)
    if size.max(initial=0) >= gpus:
        return rows
    wide, of_row, size = np.unique(
        devices.wide_group[rows], return_inverse=True, return_counts=True
    )
    holds = np.flatnonzero((wide != NONE) & (size >= gpus))
    if not len(holds):
        return rows
    tightest = holds[np.argmin(size[holds])]
    return ints(rows[of_row == tightest])


def _splits_links(board: Board, rows: Ints, gpus: int) -> Ints:
    """By node row, at how many levels no group of free devices holds so many."""
    devices = board.snapshot.devices
    splits: Ints = np.zeros(len(rows), dtype=np.int64)
    for group in board.link_levels:
        largest = np.zeros(len(board.snapshot.nodes.id), dtype=np.int64)
        known = board.is_free & (group != NONE)
        free = np.bincount(group[known])
        node_of = np.zeros(len(free), dtype=np.int64)
        node_of[group[known]] = devices.node[known]
        np.maximum.at(largest, node_of, free)
        splits += largest[rows] < gpus
    return splits
