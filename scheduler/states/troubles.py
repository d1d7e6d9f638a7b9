"""What can be wrong with a GPU or its node, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Trouble(StrEnum):
    """What a node finds wrong with one of its devices, or with itself."""

    XID = "xid"
    ECC = "ecc"
    HOT = "hot"
    LOST = "lost"
    NOT_RELEASED = "not_released"
    CHECK_FAILED = "check_failed"
    DISK_FULL = "disk_full"
    CLOCK_SKEW = "clock_skew"
    WEAK_ISOLATION = "weak_isolation"
    COPIED = "copied"
    DOES_NOT_STOP = "does_not_stop"
    BY_HAND = "by_hand"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TroubleRule:
    """What follows from a trouble.

    `breaks_programs`: who runs on the device has failed for the platform's reasons. `is_sticky`:
    it stands until the device passed a check or the host was started again, though nothing shows
    any more. `remedy` is for the operator.
    """

    words: str
    breaks_programs: bool
    is_sticky: bool
    remedy: str


# The agent has the driver's files open, and no card is reset under who has them.
_RESET = (
    "reset the GPU (stop trainyard-agent, jobs go on; nvidia-smi --gpu-reset -i INDEX; start it)"
)

TROUBLE_RULES: Mapping[Trouble, TroubleRule] = {
    Trouble.XID: TroubleRule(
        "the driver reported a hardware error",
        True,
        True,
        f"Look into the kernel's log for NVRM, {_RESET} or reboot the node, then check it.",
    ),
    Trouble.ECC: TroubleRule(
        "memory errors that cannot be corrected",
        True,
        True,
        f"So that the driver retires the rows, {_RESET}; replace it if they come back.",
    ),
    Trouble.HOT: TroubleRule(
        "too hot", False, False, "Look at fans and air flow; it returns once it has cooled down."
    ),
    Trouble.LOST: TroubleRule(
        "fell off the bus or does not answer",
        True,
        True,
        "Reboot the node; reseat the card if it happens again.",
    ),
    Trouble.NOT_RELEASED: TroubleRule(
        "in use though no job holds it",
        False,
        False,
        f"End the process named here; where none is, or it cannot be killed, {_RESET} or reboot "
        "the node.",
    ),
    Trouble.CHECK_FAILED: TroubleRule(
        "did not pass its check",
        False,
        True,
        f"See why it failed, {_RESET} or reboot the node, then check it.",
    ),
    Trouble.DISK_FULL: TroubleRule(
        "the disk is full", False, False, "Free space below the agent's state and work folders."
    ),
    Trouble.CLOCK_SKEW: TroubleRule(
        "the clock is wrong", False, False, "Let chrony or systemd-timesyncd set the clock."
    ),
    Trouble.WEAK_ISOLATION: TroubleRule(
        "keeps jobs apart less than its pool wants",
        False,
        False,
        "Start its agent with the --isolation named here; `preflight` says what that needs.",
    ),
    Trouble.COPIED: TroubleRule(
        "two machines speak as this node",
        False,
        True,
        "Stop the copy and remove its state folder, then resume the node; if unsure which is the "
        "copy, retire the node and enrol both anew.",
    ),
    Trouble.DOES_NOT_STOP: TroubleRule(
        "it was asked to stop a job and does not",
        False,
        True,
        "See what the job's processes hang in, end them or reboot the node, then resume it.",
    ),
    Trouble.BY_HAND: TroubleRule(
        "an operator took it out of service",
        False,
        True,
        "Whoever did it says why; resume the node when that is over.",
    ),
    Trouble.OTHER: TroubleRule(
        "something is wrong", False, False, "The agent is newer than this server; read its log."
    ),
}

# Xid errors after which a card must not get new work, by NVIDIA's catalogue of Xid errors. The
# others are a program's own faults or mere notices.
HARDWARE_XIDS: Mapping[int, str] = {
    46: "GPU stopped processing",
    48: "double-bit memory error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    64: "memory rows could not be retired",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit memory errors",
    95: "uncontained memory error",
    109: "context switch timed out",
    110: "security fault",
    119: "GSP does not answer",
    120: "GSP error",
    123: "power management unit error",
    125: "inforom error",
    136: "link training failed",
    140: "unrecovered memory error",
    143: "GPU could not be initialised",
    154: "GPU needs a reset",
}


def trouble_of(kind: str) -> Trouble:
    """The trouble of that name; OTHER for one that a newer agent knows."""
    try:
        return Trouble(kind)
    except ValueError:
        return Trouble.OTHER


def remedy_of(kind: str) -> str:
    """What an operator can do about the trouble of that name; empty for none."""
    return TROUBLE_RULES[trouble_of(kind)].remedy if kind else ""
