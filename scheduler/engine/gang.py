"""All shares of a job at once, on distinct nodes, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.placement import eligible_nodes, pick_devices, rank_nodes
from scheduler.engine.plan import PlannedPlacement, Start
from scheduler.engine.shaping.nodes import (
    group_of,
    holds_shapes,
    is_one_group,
    take_nodes,
    together,
)
from scheduler.engine.snapshot import NONE, Ints, Request, ints


def choose_nodes(board: Board, request: Request, beside: Sequence[Kept] = ()) -> Ints | None:
    """The node rows of every share in the order of ranks, or None if not all of them fit now.

    They fit together with all of `beside`, when that begins. An elastic job takes as many nodes as
    it can have. Licences count as well as nodes.
    """
    if not board.licences.hold(request, past_reservations=not beside):
        return None
    # What takes whole devices fits nowhere where so many are not free; that is told at once.
    if not request.is_share and int(board.free_gpus[request.model].max(initial=0)) < request.gpus:
        return None
    return find_nodes(board, request, beside)


def find_nodes(
    board: Board, request: Request, beside: Sequence[Kept] = (), *, past_tenants: bool = False
) -> Ints | None:
    """As `choose_nodes`, licences aside. `past_tenants`: as if tenants did not mind each other.

    A smaller share comes last. Equal shares first is no loss: what holds one of them holds it too.
    """
    snapshot, chosen, group = board.snapshot, ints([]), None

    def rank(part: Request, rows: Ints) -> Ints:
        return rank_nodes(board, part, rows)

    if is_one_group(request):
        group = group_of(snapshot, request)
    for shape, rows in zip(
        request.shapes(), _rooms(board, request, beside, past_tenants=past_tenants), strict=True
    ):
        if len(chosen):
            rows = ints(rows[~np.isin(rows, chosen)])
            if group is not None:
                rows = ints(rows[group[rows] == group[chosen[0]]])
        best = take_nodes(snapshot, shape, rows, rank)
        if best is None:
            return None
        # Ranks follow the rows of nodes, so that neighbours in rank are neighbours in the rack.
        best = np.sort(best)
        chosen = np.concatenate([chosen, best]) if len(chosen) else best
    return chosen


def _rooms(
    board: Board, request: Request, beside: Sequence[Kept], *, past_tenants: bool
) -> Sequence[Ints]:
    """By shape, the node rows with room for one share; if all have to be in one group, of those
    that hold all of them.
    """
    fit = [
        eligible_nodes(board, shape, beside, past_tenants=past_tenants)
        for shape in request.shapes()
    ]
    return together(board.snapshot, request, [ints(np.flatnonzero(one)) for one in fit])


def has_room(
    board: Board, request: Request, beside: Sequence[Kept] = (), *, past_tenants: bool = False
) -> bool:
    """Whether `find_nodes` would find any, without choosing among them."""
    rows = _rooms(board, request, beside, past_tenants=past_tenants)
    return holds_shapes(board.snapshot, request, rows)


def can_start(board: Board, request: Request, beside: Sequence[Kept] = ()) -> bool:
    """Whether `choose_nodes` would find any, without choosing among them."""
    return board.licences.hold(request, past_reservations=not beside) and has_room(
        board, request, beside
    )


def holds_gang(board: Board, request: Request, nodes: Ints) -> bool:
    """Whether these node rows, in the order of ranks, hold every share now."""
    first = 0
    for shape in request.shapes():
        chosen = nodes[first : first + shape.nodes]
        first += shape.nodes
        if not board.fits(shape)[chosen].all():
            return False
    return True


def shares_of(request: Request, nodes: Ints) -> list[tuple[int, Request]]:
    """Each node row, in the order of ranks, with the share it gets."""
    whole, *part = request.shapes()
    return [
        (node, part[0] if part and rank >= request.nodes else whole)
        for rank, node in enumerate(nodes.tolist())
    ]


def chosen_for_data(
    board: Board, request: Request, nodes: Ints, beside: Sequence[Kept]
) -> dict[str, object]:
    """As `Start.why_here`: what would have been chosen of the same board if data did not count."""
    missing = board.snapshot.missing_mib
    if request.dataset == NONE or missing is None:
        return {}
    others = choose_nodes(board, replace(request, dataset=NONE), beside)
    lacks, ids = missing[request.dataset], board.snapshot.nodes.id
    came = [node for node in nodes.tolist() if others is not None and node not in others]
    left = [] if others is None else [node for node in others.tolist() if node not in nodes]
    if not came or not left or lacks[came[0]] >= lacks[left[0]]:
        return {}
    return {
        "node": int(ids[came[0]]),
        "missing_mib": int(lacks[came[0]]),
        "instead_of": int(ids[left[0]]),
        "more_missing_mib": int(lacks[left[0]]),
    }


def start_gang(
    board: Board, job: int, request: Request, nodes: Ints, until_s: float, *, uses_spare: bool
) -> Start:
    """Charge the board with every share of the job and say where it runs.

    `uses_spare` is false for a job that is gone before any licence kept for a head is needed.
    """
    snapshot = board.snapshot
    board.licences.take(request, until_s, uses_spare=uses_spare)
    placements = []
    for rank, (node, shape) in enumerate(shares_of(request, nodes)):
        device_rows = pick_devices(board, shape, node)
        board.charge(node, device_rows, shape, until_s)
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
