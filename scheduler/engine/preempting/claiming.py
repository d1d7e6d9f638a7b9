"""Room that others make for a job: given to it while they leave, and taken up once they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.explaining.words import name_words
from scheduler.engine.plan import Forecast, PlannedPlacement, Start, Verdict, Waits
from scheduler.engine.snapshot import (
    NONE,
    WHOLE_MILLI,
    Flags,
    Ints,
    Request,
    Waiting,
    classes_of,
    flags,
    ints,
)
from scheduler.states import WaitReason

# So many victims are named one by one.
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Claimants:
    """Waiting jobs that room is kept for: those that take it up now, and the waits of the rest."""

    starts: tuple[Start, ...]
    waits: Waits


def is_claimant(waiting: Waiting, claimed_by: Ints) -> Flags:
    """Which waiting jobs have a claim; `claimed_by` are the ids of their jobs."""
    return flags(np.isin(waiting.id, claimed_by))


def settle_claims(board: Board, claimants: Waiting) -> Claimants:
    """Start whose room is free in full by now; the others go on waiting for just that room.

    They take part in nothing else: what is kept for them is theirs whoever else waits, and what is
    free elsewhere goes to others.
    """
    snapshot, classes = board.snapshot, classes_of(claimants)
    held, verdicts, waits, starts = snapshot.held, list[Verdict](), list[int](), list[Start]()
    for row, job in enumerate(claimants.id.tolist()):
        claims = np.flatnonzero(snapshot.claims.job == job)
        if _is_free(board, ints(claims)):
            starts.append(_take_up(board, job, ints(claims)))
            continue
        kept = np.isin(snapshot.devices.claim, claims)
        holder = snapshot.devices.holder[kept]
        victims = np.unique(held.job[holder[holder != NONE]]).tolist()
        request = classes.requests[int(classes.of_job[row])]
        facts = {
            **name_words(board, request),
            "victims": victims,
            "stopping": victim_words(victims),
        }
        verdicts.append(Verdict(WaitReason.PREEMPTION_IN_PROGRESS, facts))
        waits.append(job)
    numbers = ints(np.arange(len(waits)))
    ahead, forecast = ints(np.zeros(len(waits))), Forecast.unknown(len(waits))
    table = Waits(ints(waits), numbers, ahead, tuple(verdicts), forecast)
    return Claimants(tuple(starts), table)


def victim_words(victims: list[int]) -> str:
    """Such as "job 7 is stopping" or "jobs 7, 8, 9 and 2 more are stopping"."""
    if not victims:
        return "those who had it have just stopped"
    if len(victims) == 1:
        return f"job {victims[0]} is stopping"
    named, more = victims[:MOST_NAMED], len(victims) - MOST_NAMED
    words = [str(job) for job in named]
    last = f"{more} more" if more > 0 else words.pop()
    return f"jobs {', '.join(words)} and {last} are stopping"


def take_cleared(
    board: Board, job: int, request: Request, nodes: Ints, leaving: Ints, until_s: float
) -> Start:
    """Give these nodes to the job as they will be once the `leaving` rows of `Held` are gone."""
    snapshot, rank = board.snapshot, 0
    placements: list[PlannedPlacement] = []
    held, devices = snapshot.held, snapshot.devices
    # The last row is that of devices which nobody holds.
    is_leaving = np.zeros(len(held.job) + 1, dtype=np.bool_)
    is_leaving[leaving] = True

    def given(here: slice) -> Flags:
        is_given = is_leaving[devices.holder[here]] & board.is_offered[here]
        return flags(is_given & (devices.claim[here] == NONE))

    for shape in request.shapes():
        for node in nodes[rank : rank + shape.nodes].tolist():
            rows = _pick(board, shape, node, given(board.devices_of(node)))
            here = leaving[held.node[leaving] == node]
            board.keep(
                node,
                rows,
                cpus=max(0, shape.cpus - int(held.cpus[here].sum())),
                memory_mib=max(0, shape.memory_mib - int(held.memory_mib[here].sum())),
                until_s=until_s,
            )
            placements.append(
                PlannedPlacement(
                    node=int(snapshot.nodes.id[node]),
                    rank=len(placements),
                    devices=tuple(devices.id[rows].tolist()),
                    cpus=shape.cpus,
                    memory_mib=shape.memory_mib,
                )
            )
        rank += shape.nodes
    return Start(job, tuple(placements))


def _pick(board: Board, shape: Request, node: int, given: Flags) -> Ints:
    """Devices for one share: of the largest link group first, and what is free before the rest.

    `given`: which devices of the node those who leave give back.
    """
    devices, here = board.snapshot.devices, board.devices_of(node)
    usable = (board.is_free[here] | given) & board.accepts[shape.model][devices.model[here]]
    rows = np.flatnonzero(usable) + here.start
    groups, is_late = devices.link_group[rows], given[rows - here.start]
    if (groups == groups[:1]).all():
        # The usual case, for which counting groups took longest of all that a stop costs.
        return ints(np.sort(rows[np.argsort(is_late, kind="stable")[: shape.gpus]]))
    _, group, size = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.lexsort((rows, is_late, groups, -size[group]))
    return ints(np.sort(rows[order[: shape.gpus]]))


def _is_free(board: Board, claims: Ints) -> bool:
    """Whether all that the claims keep is there, in order, and nobody holds it any more."""
    snapshot = board.snapshot
    devices, table = snapshot.devices, snapshot.claims
    is_there = (devices.holder == NONE) & board.is_offered
    counts = np.bincount(
        devices.claim[is_there & (devices.claim != NONE)], minlength=len(table.job)
    )
    nodes = table.node[claims]
    has_host = (board.cpus_free[nodes] >= 0) & (board.memory_free_mib[nodes] >= 0)
    return bool((counts[claims] == table.gpus[claims]).all() and has_host.all())


def _take_up(board: Board, job: int, claims: Ints) -> Start:
    snapshot = board.snapshot
    table, devices = snapshot.claims, snapshot.devices
    return Start(
        job,
        tuple(
            PlannedPlacement(
                node=int(snapshot.nodes.id[table.node[claim]]),
                rank=rank,
                devices=tuple(devices.id[devices.claim == claim].tolist()),
                cpus=int(table.cpus[claim]),
                memory_mib=int(table.memory_mib[claim]),
                gpu_milli=WHOLE_MILLI,
            )
            for rank, claim in enumerate(claims.tolist())
        ),
    )
