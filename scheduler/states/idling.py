"""Jobs whose GPUs do little: what a rule may do about them, and how that is said."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from scheduler.states.shown import rough_span


class IdleAct(StrEnum):
    """What follows a warning that nobody answers."""

    TELL = "tell"
    PAUSE = "pause"
    STOP = "stop"


IDLE_ACT_WORDS: Mapping[IdleAct, str] = {
    IdleAct.TELL: "only tell",
    IdleAct.PAUSE: "pause, with a checkpoint",
    IdleAct.STOP: "stop",
}
# As in "It is paused at 12:00".
IDLE_ACT_DONE: Mapping[IdleAct, str] = {
    IdleAct.TELL: "told",
    IdleAct.PAUSE: "paused",
    IdleAct.STOP: "stopped",
}


class IdleOutcome(StrEnum):
    """What became of a warning."""

    OPEN = "open"
    WORKED = "worked"
    KEPT = "kept"
    PAUSED = "paused"
    STOPPED = "stopped"
    ENDED = "ended"
    LIFTED = "lifted"


IDLE_OUTCOME_WORDS: Mapping[IdleOutcome, str] = {
    IdleOutcome.OPEN: "warned",
    IdleOutcome.WORKED: "worked again",
    IdleOutcome.KEPT: "still needed",
    IdleOutcome.PAUSED: "paused",
    IdleOutcome.STOPPED: "stopped",
    IdleOutcome.ENDED: "ended by itself or its people",
    IdleOutcome.LIFTED: "the rule was changed",
}


def idle_evidence(*, gpus: int, below: int, idle_s: int, highest: float, readings: int) -> str:
    """What speaks for it: how many GPUs, below how many per cent, for how long, at most how much,
    by how many readings."""
    whose = "its GPU" if gpus == 1 else f"each of its {gpus} GPUs"
    span = rough_span(max(60, idle_s))
    return (
        f"{whose} stayed below {below} % for {span} (at most {highest:.0f} % in {readings} "
        "readings), without a line of log or a checkpoint"
    )


def idle_rule_name(owner: str) -> str:
    """Whose rule it is, as the one who warns or stops; `owner` such as "project vision/digits"."""
    return f"the rule of {owner} for GPUs that do little"
