"""What goes into a judgement and what comes out."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.states import EndReason, FailureClass


@dataclass(frozen=True, slots=True)
class LogTail:
    """The end of one rank's log: raw bytes, and the number of the line they begin in.

    `is_cut`: the bytes begin in the middle of a line, which is then left out.
    """

    rank: int
    raw: bytes
    first_line: int = 1
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt. Everything but `tails` is the node's or the server's word.

    `exit_code` as a shell shows it (128 + signal for a killed program). `detail` is the agent's
    text; for SETUP_FAILED it may quote the user's tools. `others` are the reasons with which the
    other ranks ended.
    """

    reason: EndReason
    exit_code: int | None = None
    detail: str = ""
    rank: int = 0
    others: tuple[EndReason, ...] = ()
    tails: tuple[LogTail, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that speaks for the finding; `line` 0: not from a log but from the node's report."""

    rank: int
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Why it failed. `is_confirmed`: the node says so, not only the program's own output."""

    failure: FailureClass
    signature: str
    evidence: tuple[Evidence, ...]
    advice: str
    is_confirmed: bool
