"""Whether a node takes what it is given: room on its disk, and an entry that lasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.agent.config import Options
from scheduler.agent.node.host import free_mib
from scheduler.agent.spool import Slot, Spool
from scheduler.wire.messages import Assignment

Refuse = Callable[[Assignment, OSError], object]


def accept(
    spool: Spool, options: Options, assignments: Sequence[Assignment], refuse: Refuse
) -> list[Slot]:
    """Write all entries durably, by one flush; `refuse` hears of those that cannot be taken."""
    slots: list[Slot] = []
    room = 0
    for assignment in assignments:
        try:
            room = room or min(map(free_mib, (options.state, options.work)))
            if room < options.min_free_mib and assignment.stop is None:
                raise OSError(f"the disk is full: {room} MiB are left on the node")
            slots.append(spool.open(assignment))
        except OSError as problem:
            refuse(assignment, problem)
    try:
        if slots:
            spool.accept(slots)
    except OSError as problem:
        for slot in slots:
            refuse(slot.entry.assignment, problem)
        return []
    return slots
