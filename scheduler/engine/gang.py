"""All shares of a job at once, on distinct nodes, or nothing."""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.placement import eligible_nodes, pick_devices, rank_nodes
from scheduler.engine.plan import PlannedPlacement, Start
from scheduler.engine.snapshot import Ints, Request, ints


def choose_nodes(board: Board, request: Request, *, past_reservations: bool) -> Ints | None:
    """The node rows of every share in the order of ranks, or None if not all of them fit now.

    A smaller share comes last. Equal shares first is no loss: what holds one of them holds it too.
    """
    chosen = ints([])
    for shape in request.shapes():
        fit = eligible_nodes(board, shape, past_reservations=past_reservations)
        fit[chosen] = False
        rows = ints(np.flatnonzero(fit))
        if len(rows) < shape.nodes:
            return None
        # Ranks follow the rows of nodes, so that neighbours in rank are neighbours in the rack.
        best = np.sort(rank_nodes(board, shape, rows)[: shape.nodes])
        chosen = np.concatenate([chosen, best])
    return chosen


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
    placements = []
    whole, *part = request.shapes()
    for rank, node in enumerate(nodes.tolist()):
        shape = whole if rank < request.nodes else part[0]
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
