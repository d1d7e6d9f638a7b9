"""Whether a node takes what it is given: room on its disk, and an entry that lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from scheduler.agent.config import Options
from scheduler.agent.node.host import free_mib
from scheduler.agent.runner import Attempt
from scheduler.agent.runtime.forking.forkserver import Forkserver
from scheduler.agent.setup.prepare import Ground
from scheduler.agent.spool import Slot, Spool
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import Assignment, AttemptReport

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


def start_all(
    attempts: Sequence[Attempt],
    ground: Callable[[Attempt], Ground],
    server: Forkserver,
    on_change: Callable[[], None],
) -> None:
    """Prepare and launch on threads; those that take a moment share one."""

    def begin(group: Sequence[Attempt]) -> None:
        for one in group:
            one.begin(ground(one), server)
        on_change()

    brief = [one for one in attempts if one.is_brief()]
    for group in filter(None, (brief, *([one] for one in attempts if one not in brief))):
        threading.Thread(target=begin, args=(group,), daemon=True).start()


def refusal(
    assignment: Assignment, detail: str, reason: EndReason = EndReason.START_FAILED
) -> AttemptReport:
    """The end of an attempt that this node could not even accept, or has no more."""
    now = time.time()
    return AttemptReport(
        fence=assignment.fence,
        rank=assignment.rank,
        state=AttemptState.ENDED,
        ended_at=now,
        end_reason=reason,
        detail=detail,
    )
