"""Room that others make for a job: given to it while they leave, and taken up once they have."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.explaining.capacity import find_unlicensed
from scheduler.engine.explaining.case import Case
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
    free elsewhere goes to others. Licences are kept for nobody meanwhile, so who needs some starts
    only while they are there; and nobody while the queue is paused.
    """
    snapshot, classes = board.snapshot, classes_of(claimants)
    verdicts, waits, starts = list[Verdict](), list[int](), list[Start]()
    for row, job in enumerate(claimants.id.tolist()):
        claims, kind = ints(np.flatnonzero(snapshot.claims.job == job)), int(classes.of_job[row])
        request = classes.requests[kind]
        if not _is_free(board, claims):
            verdict = _still_held(board, request, claims)
        elif snapshot.queue_is_paused[request.queue]:
            verdict = Verdict(WaitReason.POOL_CLOSED, name_words(board, request))
        elif lacks := find_unlicensed(Case(board, request, kind)):
            verdict = Verdict(WaitReason.LICENCE_WAIT, lacks.facts)
        else:
            until_s = snapshot.now_s + float(claimants.remaining_s[row])
            board.licences.take(request, until_s, uses_spare=True)
            starts.append(_take_up(board, job, claims))
            continue
        verdicts.append(verdict)
        waits.append(job)
    numbers = ints(np.arange(len(waits)))
    ahead, forecast = ints(np.zeros(len(waits))), Forecast.unknown(len(waits))
    table = Waits(ints(waits), numbers, ahead, tuple(verdicts), forecast)
    return Claimants(tuple(starts), table)


def _still_held(board: Board, request: Request, claims: Ints) -> Verdict:
    snapshot = board.snapshot
    holder = snapshot.devices.holder[np.isin(snapshot.devices.claim, claims)]
    victims = np.unique(snapshot.held.job[holder[holder != NONE]]).tolist()
    facts = {
        **name_words(board, request),
        "victims": victims,
        "stopping": victim_words(victims),
    }
    return Verdict(WaitReason.PREEMPTION_IN_PROGRESS, facts)


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
    held, devices, given = snapshot.held, snapshot.devices, set(leaving.tolist())
    on_node: dict[int, list[int]] = {}
    for row, node in zip(leaving.tolist(), held.node[leaving].tolist(), strict=True):
        on_node.setdefault(node, []).append(row)
    for shape in request.shapes():
        for node in nodes[rank : rank + shape.nodes].tolist():
            rows, here = _pick(board, shape, node, given), on_node.get(node, ())
            freed_cpus = sum(int(held.cpus[row]) for row in here)
            freed_mib = sum(int(held.memory_mib[row]) for row in here)
            board.keep(
                node,
                rows,
                cpus=max(0, shape.cpus - freed_cpus),
                memory_mib=max(0, shape.memory_mib - freed_mib),
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


def _pick(board: Board, shape: Request, node: int, leaving: Set[int]) -> Ints:
    """Devices for one share: of the largest link group first, and what is free before the rest; a
    share that no link group holds, from the largest of the wider groups first.

    `leaving`: rows of `Held` that give back what they have. A node has a few devices, for which
    lists take less time than columns.
    """
    devices, here = board.snapshot.devices, board.devices_of(node)
    accepted = board.accepts[shape.model][devices.model[here]].tolist()
    is_free, is_offered = board.is_free[here].tolist(), board.is_offered[here].tolist()
    groups, usable = devices.link_group[here].tolist(), list[tuple[int, int, bool, int]]()
    wide = devices.wide_group[here].tolist()
    size: dict[int, int] = {}
    wide_size: dict[int, int] = {}
    columns = devices.holder[here].tolist(), devices.claim[here].tolist()
    for at, (holder, claim) in enumerate(zip(*columns, strict=True)):
        is_given = holder in leaving and is_offered[at] and claim == NONE
        if accepted[at] and (is_free[at] or is_given):
            usable.append((wide[at], groups[at], is_given, here.start + at))
            size[groups[at]] = size.get(groups[at], 0) + 1
            wide_size[wide[at]] = wide_size.get(wide[at], 0) + 1
    is_close = max(size.values(), default=0) >= shape.gpus
    usable.sort(
        key=lambda one: (
            (0, 0) if is_close else (-wide_size[one[0]], one[0]),
            -size[one[1]],
            *one[1:],
        )
    )
    return ints(sorted(row for *_, row in usable[: shape.gpus]))


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
