"""Where one share of a job goes: hard constraints answer yes or no, soft ones score."""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.snapshot import NONE, WHOLE_MILLI, Flags, Ints, Request, ints


def is_capable(board: Board, request: Request, gpus: Ints) -> Flags:
    """Nodes of the pool that could hold one share if they were empty.

    `gpus` says which devices count, by model and node: `board.present_gpus` or `offered_gpus`.
    """
    nodes = board.snapshot.nodes
    return np.asarray(
        board.in_pool[request.pool]
        & (gpus[request.model] >= request.gpus)
        & (nodes.cpus_total >= request.cpus)
        & (nodes.memory_total_mib >= request.memory_mib)
        & (not request.is_share or board.shares_cards(request.model))
    )


def has_nodes(board: Board, request: Request, gpus: Ints, among: Flags) -> bool:
    """Whether enough of the nodes `among` could hold every share if they were empty."""
    shapes = request.shapes()
    counts = [int(np.count_nonzero(is_capable(board, s, gpus) & among)) for s in shapes]
    # What holds a whole share holds the part too, so the part needs one node more.
    return counts[0] >= request.nodes and counts[-1] >= request.nodes + len(shapes) - 1


def eligible_nodes(board: Board, request: Request, *, past_reservations: bool) -> Flags:
    """Nodes that may hold one share now: room, right pool, and not where it just failed.

    The node where the job failed last is avoided only if enough others could hold it, so that a
    pool of one node does not wait for ever.
    """
    fit = board.fits(request, past_reservations=past_reservations)
    return without_avoided(board, request, fit)


def without_avoided(board: Board, request: Request, chosen: Flags) -> Flags:
    """`chosen` less the node to avoid, if enough other nodes are capable of the request."""
    if request.avoid_node == NONE or not chosen[request.avoid_node]:
        return chosen
    capable = is_capable(board, request, board.offered_gpus)
    capable[request.avoid_node] = False
    if int(np.count_nonzero(capable)) < request.nodes:
        return chosen
    chosen = chosen.copy()
    chosen[request.avoid_node] = False
    return chosen


def rank_nodes(board: Board, request: Request, rows: Ints) -> Ints:
    """Node rows, the best first; at least as many as the request needs, if there are.

    Unless the policy packs, scores are vectors over `rows`, compared in this order:

    1. whole free nodes stay whole, for the jobs that need them;
    2. the share stays within one link group;
    3. best fit: the fewest devices, then cpus, are left over; of a shared device the least;
    4. the lower row, so that equal nodes are taken in a steady order.
    """
    if board.packer is not None:
        return board.packer.rank(request, rows)
    free = board.free_gpus[NONE, rows]
    breaks_whole = (free == board.offered_gpus[NONE, rows]) & (free > request.gpus)
    splits_links = _largest_link_group(board)[rows] < request.gpus
    cpus_left = board.cpus_free[rows] - request.cpus
    best_first = np.lexsort((rows, cpus_left, free - request.gpus, splits_links, breaks_whole))
    if request.is_share:
        rest = _least_rest(board, request)[rows]
        best_first = np.lexsort((rows, cpus_left, rest, breaks_whole))
    return ints(rows[best_first])


def pick_devices(board: Board, request: Request, node: int) -> Ints:
    """Device rows of one share: from the tightest link group that holds it, else from the largest.

    A part of a device comes from the one with the least left over, unless the policy packs. The
    node must hold the request now.
    """
    devices = board.snapshot.devices
    here = board.devices_of(node)
    if request.is_share:
        return _pick_shared(board, request, node)
    usable = board.is_free[here].copy()
    if request.model != NONE:
        usable &= board.accepts[request.model][devices.model[here]]
    rows = np.flatnonzero(usable) + here.start
    groups = devices.link_group[rows]
    if (groups == groups[:1]).all():
        return ints(rows[: request.gpus])
    _, group, size = np.unique(groups, return_inverse=True, return_counts=True)
    size_here = size[group]
    if (size_here >= request.gpus).any():
        order = np.lexsort((rows, groups, size_here, size_here < request.gpus))
    else:
        order = np.lexsort((rows, groups, -size_here))
    return ints(np.sort(rows[order[: request.gpus]]))


def _pick_shared(board: Board, request: Request, node: int) -> Ints:
    if board.packer is not None:
        return ints([board.packer.pick(request, node)])
    here = board.devices_of(node)
    rest = board.free_milli[here] - request.gpu_milli
    usable = board.may_serve(request)[here] & (rest >= 0)
    return ints([here.start + int(np.where(usable, rest, WHOLE_MILLI).argmin())])


def _least_rest(board: Board, request: Request) -> Ints:
    """By node, the least that taking a part of one device leaves of it, in milli-GPU."""
    rest = board.free_milli - request.gpu_milli
    room = np.flatnonzero(board.may_serve(request) & (rest >= 0))
    least: Ints = np.full(len(board.snapshot.nodes.id), WHOLE_MILLI, dtype=np.int64)
    np.minimum.at(least, board.snapshot.devices.node[room], rest[room])
    return least


def _largest_link_group(board: Board) -> Ints:
    """Free devices in the largest link group of each node."""
    devices = board.snapshot.devices
    largest = np.zeros(len(board.snapshot.nodes.id), dtype=np.int64)
    if len(devices.id):
        free = np.bincount(devices.link_group[board.is_free], minlength=board.link_groups)
        np.maximum.at(largest, board.node_of_link_group, free)
    return largest
