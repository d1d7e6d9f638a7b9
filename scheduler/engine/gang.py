"""All shares of a job at once, on distinct nodes, or nothing."""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.placement import eligible_nodes, pick_devices, rank_nodes
from scheduler.engine.plan import PlannedPlacement, Start
from scheduler.engine.shaping.nodes import group_of, take_nodes
from scheduler.engine.shaping.topology import REQUIRED, count_groups
from scheduler.engine.snapshot import NONE, Ints, Request, Snapshot, ints


def choose_nodes(board: Board, request: Request, *, past_reservations: bool) -> Ints | None:
    """The node rows of every share in the order of ranks, or None if not all of them fit now.

    An elastic job takes as many nodes as it can have. Licences count as well as nodes.
    """
    if not board.licences.hold(request, past_reservations=past_reservations):
        return None
    return find_nodes(board, request, past_reservations=past_reservations)


def find_nodes(
    board: Board, request: Request, *, past_reservations: bool, past_tenants: bool = False
) -> Ints | None:
    """As `choose_nodes`, licences aside. `past_tenants`: as if tenants did not mind each other.

    A smaller share comes last. Equal shares first is no loss: what holds one of them holds it too.
    """
    snapshot, chosen = board.snapshot, ints([])

    def rank(part: Request, rows: Ints) -> Ints:
        return rank_nodes(board, part, rows)

    for shape in request.shapes():
        fit = eligible_nodes(
            board, shape, past_reservations=past_reservations, past_tenants=past_tenants
        )
        fit[chosen] = False
        rows = ints(np.flatnonzero(fit))
        if request.part_gpus and request.topology and request.spread == REQUIRED:
            rows = _where_all_fit(snapshot, request, rows, chosen)
        best = take_nodes(snapshot, shape, rows, rank)
        if best is None:
            return None
        # Ranks follow the rows of nodes, so that neighbours in rank are neighbours in the rack.
        chosen = np.concatenate([chosen, np.sort(best)])
    return chosen


def _where_all_fit(snapshot: Snapshot, request: Request, rows: Ints, chosen: Ints) -> Ints:
    """The rows in groups that hold the smaller share beside the others."""
    group = group_of(snapshot, request)
    if len(chosen):
        return ints(rows[group[rows] == group[chosen[0]]])
    # What holds a whole share holds the smaller one too, so one node more is always enough.
    counts = count_groups(group, rows)
    return ints(rows[(group[rows] != NONE) & (counts[group[rows]] > request.nodes)])


def holds_gang(board: Board, request: Request, nodes: Ints) -> bool:
    """Whether these node rows, in the order of ranks, hold every share now."""
    first = 0
    for shape in request.shapes():
        chosen = nodes[first : first + shape.nodes]
        first += shape.nodes
        if not board.fits(shape, past_reservations=True)[chosen].all():
            return False
    return True


def start_gang(
    board: Board, job: int, request: Request, nodes: Ints, until_s: float, *, uses_spare: bool
) -> Start:
    """Charge the board with every share of the job and say where it runs."""
    snapshot = board.snapshot
    board.licences.take(request, until_s, uses_spare=uses_spare)
    placements = []
    whole, *part = request.shapes()
    for rank, node in enumerate(nodes.tolist()):
        shape = part[0] if part and rank >= request.nodes else whole
        device_rows = pick_devices(board, shape, node)
        board.charge(node, device_rows, shape, until_s, uses_spare=uses_spare)
        placements.append(
            PlannedPlacement(
                node=int(snapshot.nodes.id[node]),
                rank=rank,
                devices=tuple(snapshot.devices.id[device_rows].tolist()),
                cpus=request.cpus,
                memory_mib=request.memory_mib,
                gpu_milli=request.gpu_milli,
            )
        )
    return Start(job, tuple(placements))
