"""The words people see for a state."""

from __future__ import annotations

from scheduler.states.ends import PAUSES, EndReason
from scheduler.states.moves import LIVE_JOB_STATES, JobState

TIMES_OUT = frozenset({EndReason.TIME_LIMIT, EndReason.FINISH_BY_REACHED})


def shown_state(state: JobState | str, end_reason: str = "", *, unreachable: bool = False) -> str:
    """The word people see: the state, made more precise by its reason."""
    if unreachable and state in LIVE_JOB_STATES:
        return "unreachable"
    if state == JobState.FAILED and end_reason in TIMES_OUT:
        return "timed out"
    if state == JobState.QUEUED and end_reason == EndReason.PREEMPTED:
        return "preempted"
    if state == JobState.HELD and end_reason in PAUSES:
        return "paused"
    return str(state)
