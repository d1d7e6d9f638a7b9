"""Every state, every legal move, every reason with its sentence. Pure: standard library only.

States are few, reasons are rich. A state says *where* a job is (`moves.py`); a reason says *why*
(`waits.py`, `ends.py`) and decides, in one table cell, what follows: retry or not, billed or not,
whose fault.
"""

from scheduler.states.ends import (
    END_RULES,
    FAILURE_WORDS,
    INFRASTRUCTURE,
    MAX_FREE_RETRIES,
    PAUSES,
    EndReason,
    EndRule,
    FailureClass,
    end_sentence,
    loss_sentence,
)
from scheduler.states.moves import (
    ATTEMPT_MOVES,
    FINAL_JOB_STATES,
    JOB_MOVES,
    LIVE_ATTEMPT_STATES,
    LIVE_JOB_STATES,
    NODE_MOVES,
    WAITING_JOB_STATES,
    AttemptState,
    DeviceHealth,
    JobState,
    NodeState,
    Tier,
)
from scheduler.states.shown import shown_state
from scheduler.states.troubles import (
    HARDWARE_XIDS,
    TROUBLE_RULES,
    Trouble,
    TroubleRule,
    trouble_of,
)
from scheduler.states.waits import (
    AUTOMATIC_HOLDS,
    WAIT_SENTENCES,
    DependencyKind,
    WaitReason,
    wait_sentence,
    why_no_forecast,
)

__all__ = [
    "ATTEMPT_MOVES",
    "AUTOMATIC_HOLDS",
    "END_RULES",
    "FAILURE_WORDS",
    "FINAL_JOB_STATES",
    "HARDWARE_XIDS",
    "INFRASTRUCTURE",
    "JOB_MOVES",
    "LIVE_ATTEMPT_STATES",
    "LIVE_JOB_STATES",
    "MAX_FREE_RETRIES",
    "NODE_MOVES",
    "PAUSES",
    "TROUBLE_RULES",
    "WAITING_JOB_STATES",
    "WAIT_SENTENCES",
    "AttemptState",
    "DependencyKind",
    "DeviceHealth",
    "EndReason",
    "EndRule",
    "FailureClass",
    "JobState",
    "NodeState",
    "Tier",
    "Trouble",
    "TroubleRule",
    "WaitReason",
    "end_sentence",
    "loss_sentence",
    "shown_state",
    "trouble_of",
    "wait_sentence",
    "why_no_forecast",
]
