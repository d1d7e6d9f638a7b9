"""What people are told of, whether by mail unless they choose otherwise, and what a job of its own
asks to be told of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class NoticeKind(StrEnum):
    """One kind of news; people choose for each where it reaches them."""

    JOB_SUCCEEDED = "job_succeeded"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    JOB_PREEMPTED = "job_preempted"
    JOB_HELD = "job_held"
    JOB_LATE = "job_late"
    JOB_STARTED = "job_started"
    JOB_ENDING = "job_ending"
    SCHEDULE_TROUBLE = "schedule_trouble"
    REQUEST_WAITING = "request_waiting"
    REQUEST_DECIDED = "request_decided"
    BUDGET = "budget"
    SESSION_IDLE = "session_idle"
    JOB_IDLE = "job_idle"
    MONTH_CLOSE = "month_close"
    PROMISE_BROKEN = "promise_broken"
    NODE_TROUBLE = "node_trouble"


@dataclass(frozen=True, slots=True)
class NoticeRule:
    """`words` name the kind; `glyph` draws it; `by_mail` is what holds until somebody chooses."""

    words: str
    about: str
    glyph: str
    by_mail: bool


NOTICE_RULES: Mapping[NoticeKind, NoticeRule] = {
    NoticeKind.JOB_SUCCEEDED: NoticeRule(
        "Job finished",
        "One of your jobs or arrays has ended well.",
        "succeeded",
        False,
    ),
    NoticeKind.JOB_FAILED: NoticeRule(
        "Job failed",
        "One of your jobs has failed; of an array, the first task.",
        "failed",
        False,
    ),
    NoticeKind.JOB_CANCELLED: NoticeRule(
        "Job cancelled",
        "Somebody else cancelled a job of yours, or it could never start.",
        "cancelled",
        False,
    ),
    NoticeKind.JOB_PREEMPTED: NoticeRule(
        "Job interrupted",
        "A job of yours lost its GPUs and waits again.",
        "preempted",
        False,
    ),
    NoticeKind.JOB_HELD: NoticeRule(
        "Job held or paused",
        "Somebody else held or paused a job of yours, or released what you held.",
        "held",
        False,
    ),
    NoticeKind.JOB_LATE: NoticeRule(
        "Job late",
        "A job of yours is probably not finished by the moment you gave it, or that is over.",
        "unreachable",
        True,
    ),
    NoticeKind.JOB_STARTED: NoticeRule(
        "Job started",
        "A job of yours that asks for it, or of another that you watch so, has started.",
        "running",
        True,
    ),
    NoticeKind.JOB_ENDING: NoticeRule(
        "Time limit near",
        "A job of yours that asks for it, or of another that you watch so, is near its time limit "
        "or highest price.",
        "unreachable",
        True,
    ),
    NoticeKind.SCHEDULE_TROUBLE: NoticeRule(
        "Schedule in trouble",
        "A schedule of yours could not submit its job, missed its time, or was paused or deleted.",
        "failed",
        True,
    ),
    NoticeKind.REQUEST_WAITING: NoticeRule(
        "Request waits for you",
        "Somebody asks for quota or money, wants to cancel many jobs, or disputes a statement, and "
        "you may decide.",
        "report",
        True,
    ),
    NoticeKind.REQUEST_DECIDED: NoticeRule(
        "Request answered",
        "What you asked for or disputed was decided, sent back to you, or comes to its end.",
        "quota",
        True,
    ),
    NoticeKind.BUDGET: NoticeRule(
        "Budget warning",
        "A budget you answer for has reached a threshold.",
        "money",
        True,
    ),
    NoticeKind.SESSION_IDLE: NoticeRule(
        "Idle session",
        "A session of yours is idle and stops soon, or was stopped for it.",
        "queued",
        True,
    ),
    NoticeKind.JOB_IDLE: NoticeRule(
        "GPUs that do little",
        "A job of yours does little with its GPUs and may be paused or stopped for it, or was.",
        "queued",
        True,
    ),
    NoticeKind.MONTH_CLOSE: NoticeRule(
        "Month closed or not",
        "A month of the books has closed by itself, or something stands in its way.",
        "report",
        True,
    ),
    NoticeKind.PROMISE_BROKEN: NoticeRule(
        "Promise broken",
        "The nightly check found that Trainyard broke a promise of its own; for operators.",
        "failed",
        True,
    ),
    NoticeKind.NODE_TROUBLE: NoticeRule(
        "Node in trouble",
        "A node was lost or copied, a log of it was sent twice and differently, or it or a GPU of "
        "it went out of service by itself; for operators.",
        "unreachable",
        True,
    ),
}

# What everybody may read who belongs to the team of a job: these alone go to a team's chat.
TEAM_KINDS = frozenset(
    {
        NoticeKind.JOB_SUCCEEDED,
        NoticeKind.JOB_FAILED,
        NoticeKind.JOB_CANCELLED,
        NoticeKind.JOB_PREEMPTED,
        NoticeKind.JOB_HELD,
        NoticeKind.SESSION_IDLE,
    }
)

# Told only of jobs that ask for it, or that one watches so: nothing that is chosen for all jobs.
ASKED_KINDS = frozenset({NoticeKind.JOB_STARTED, NoticeKind.JOB_ENDING})


class Wish(StrEnum):
    """One word of a job's `notify`."""

    START = "start"
    END = "end"
    FAIL = "fail"
    RETRY = "retry"
    PREEMPT = "preempt"
    WARN = "warn"
    ARRAY = "array"
    NONE = "none"


_WHEN: Mapping[str, str] = {
    Wish.START: "when it starts",
    Wish.END: "when it ends",
    Wish.FAIL: "when it fails",
    Wish.RETRY: "when it has to be tried again",
    Wish.PREEMPT: "when it makes room for others",
    Wish.WARN: "at 80 and 90 % of its time limit or highest price",
}


def wish_sentence(wishes: Collection[str], *, has_mail: bool = True, is_array: bool = False) -> str:
    """What a job's `notify` means to its owner; empty where the owner's settings hold."""
    if not wishes:
        return ""
    if Wish.NONE in wishes:
        return "You are told nothing of its course."
    *some, last = [words for wish, words in _WHEN.items() if wish in wishes]
    when = f"{', '.join(some)} and {last}" if some else last
    each = ", of each task" if Wish.ARRAY in wishes else ", once for the whole array"
    where = "by mail and in the inbox" if has_mail else "in the inbox (no mail address is known)"
    return f"You are told {where} {when}{each if is_array else ''}."


def is_wished(wishes: Collection[str] | None, *events: str) -> bool | None:
    """Whether a job asks to be told of something that is any of these events; None for one that
    asks for nothing of its own, so that its owner's settings hold."""
    return None if not wishes else bool(set(wishes) & set(events))
