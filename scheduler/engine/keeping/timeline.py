"""What a plan says about the time to come, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.plan import Reservation, Slot, SlotKind, Start
from scheduler.engine.reservation import Head
from scheduler.engine.snapshot import Snapshot


def timeline_of(board: Board, starts: Iterable[Start], started: Sequence[int]) -> tuple[Slot, ...]:
    """What starts now (`started`: its waiting rows), then what is kept, by pool and begin."""
    snapshot = board.snapshot
    slots = []
    for start, row in zip(starts, started, strict=True):
        until_s = snapshot.now_s + float(snapshot.waiting.remaining_s[row])
        nodes = tuple(placement.node for placement in start.placements)
        slots.append(Slot(SlotKind.START, start.job, nodes, snapshot.now_s, until_s))
    kept = [one for one in board.keeping if not one.is_promise]
    kept.sort(key=lambda one: (one.pool, one.from_s, one.kind, one.owner))
    return tuple(slots) + tuple(_slot(snapshot, one) for one in kept)


def _slot(snapshot: Snapshot, one: Kept) -> Slot:
    ids = {
        SlotKind.MAINTENANCE: snapshot.windows.id,
        SlotKind.BOOKING: snapshot.bookings.id,
        SlotKind.HEADROOM: snapshot.headroom.id,
    }.get(one.kind, snapshot.waiting.id)
    owner = int(ids[one.owner])
    nodes = tuple(snapshot.nodes.id[one.nodes].tolist())
    return Slot(one.kind, owner, nodes, one.from_s, one.until_s)


def reservations_of(
    snapshot: Snapshot, heads: Mapping[int, Sequence[Head]]
) -> tuple[Reservation, ...]:
    """What is kept for the heads of each pool, in order."""
    return tuple(
        Reservation(
            job=int(snapshot.waiting.id[head.row]),
            nodes=tuple(snapshot.nodes.id[head.start.nodes].tolist()),
            start_s=head.start.start_s,
        )
        for _, first in sorted(heads.items())
        for head in first
    )
