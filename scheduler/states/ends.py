"""Why attempts end, and what follows from each end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.states.failures import FAILURE_WORDS, INFRASTRUCTURE, FailureClass
from scheduler.states.moves import JobState

__all__ = [
    "END_RULES",
    "FAILURE_WORDS",
    "INFRASTRUCTURE",
    "MADE_TO_MOVE",
    "MAX_FREE_RETRIES",
    "PAUSES",
    "EndReason",
    "EndRule",
    "FailureClass",
]


class EndReason(StrEnum):
    """Why an attempt ended. `END_RULES` says what follows from each."""

    COMPLETED = "completed"
    EXIT_CODE = "exit_code"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    CANCELLED_BY_USER = "cancelled_by_user"
    CANCELLED_BY_ADMIN = "cancelled_by_admin"
    PREEMPTED = "preempted"
    RESIZED = "resized"
    NODE_LOST = "node_lost"
    DEVICE_FAILED = "device_failed"
    START_FAILED = "start_failed"
    START_TIMEOUT = "start_timeout"
    SETUP_FAILED = "setup_failed"
    NODE_DRAINED = "node_drained"
    INFEASIBLE = "infeasible"
    DEPENDENCY_NEVER = "dependency_never"
    PAUSED_BY_USER = "paused_by_user"
    PAUSED_BY_ADMIN = "paused_by_admin"
    BUDGET_SPENT = "budget_spent"
    BOOKING_ENDED = "booking_ended"
    SESSION_IDLE = "session_idle"
    CODE_DIFFERS = "code_differs"
    FINISH_BY_MISSED = "finish_by_missed"
    FINISH_BY_REACHED = "finish_by_reached"
    MAX_COST_REACHED = "max_cost_reached"
    MAX_COST_SPENT = "max_cost_spent"
    IDLE_PAUSED = "idle_paused"
    IDLE_STOPPED = "idle_stopped"
    SUPERSEDED = "superseded"


# For others or for the cluster's good, not for anything the job did.
MADE_TO_MOVE = frozenset({EndReason.PREEMPTED, EndReason.RESIZED})
PAUSES = frozenset({EndReason.PAUSED_BY_USER, EndReason.PAUSED_BY_ADMIN, EndReason.IDLE_PAUSED})


@dataclass(frozen=True, slots=True)
class EndRule:
    """What follows when an attempt ends for a reason.

    `final` is the job's state when no retry is left or allowed; HELD for a pause, which a person
    ends. `uses_user_retry`: it is taken from the number the user asked for; `retry_free`: on the
    platform's own bill. Slots of `sentence` are filled by `end_sentence`.
    """

    final: JobState
    failure: FailureClass
    billable: bool
    uses_user_retry: bool
    retry_free: bool
    sentence: str


END_RULES: Mapping[EndReason, EndRule] = {
    EndReason.COMPLETED: EndRule(
        JobState.SUCCEEDED, FailureClass.NONE, True, False, False, "Finished with exit code 0."
    ),
    EndReason.EXIT_CODE: EndRule(
        JobState.FAILED,
        FailureClass.USER_CODE,
        True,
        True,
        False,
        "The program ended with exit code {exit_code}. The last lines of the log say more.",
    ),
    EndReason.OUT_OF_MEMORY: EndRule(
        JobState.FAILED,
        FailureClass.USER_RESOURCE,
        True,
        True,
        False,
        "The program used more memory than the {limit} it asked for. Ask for more, or use less.",
    ),
    EndReason.TIME_LIMIT: EndRule(
        JobState.FAILED,
        FailureClass.TIMEOUT,
        True,
        False,
        False,
        "The time limit of {limit} was reached. Clone the job with a longer limit to go on.",
    ),
    EndReason.CANCELLED_BY_USER: EndRule(
        JobState.CANCELLED, FailureClass.NONE, True, False, False, "Cancelled by {who}."
    ),
    EndReason.CANCELLED_BY_ADMIN: EndRule(
        JobState.CANCELLED, FailureClass.NONE, True, False, False, "Cancelled by operator {who}."
    ),
    EndReason.PREEMPTED: EndRule(
        JobState.FAILED,
        FailureClass.PREEMPTED,
        True,
        False,
        True,
        "Stopped to make room for {for_whom}; it waits again in its old place.",
    ),
    EndReason.RESIZED: EndRule(
        JobState.FAILED,
        FailureClass.NONE,
        True,
        False,
        True,
        "Stopped to go on with {nodes} instead of {was} nodes, {for_what}.",
    ),
    EndReason.NODE_LOST: EndRule(
        JobState.FAILED,
        FailureClass.INFRA_NODE,
        False,
        False,
        True,
        "Node {node} failed the job. The time on it is not charged.",
    ),
    EndReason.DEVICE_FAILED: EndRule(
        JobState.FAILED,
        FailureClass.INFRA_GPU,
        False,
        False,
        True,
        "A GPU on node {node} failed. The time on it is not charged.",
    ),
    EndReason.START_FAILED: EndRule(
        JobState.FAILED,
        FailureClass.PLATFORM,
        False,
        False,
        True,
        "Node {node} could not start the program: {detail}",
    ),
    EndReason.START_TIMEOUT: EndRule(
        JobState.FAILED,
        FailureClass.PLATFORM,
        False,
        False,
        True,
        "Node {node} did not start the job in time. The time is not charged.",
    ),
    EndReason.SETUP_FAILED: EndRule(
        JobState.FAILED,
        FailureClass.USER_CONFIG,
        True,
        True,
        False,
        "The job could not be set up: {detail}",
    ),
    EndReason.NODE_DRAINED: EndRule(
        JobState.FAILED,
        FailureClass.INFRA_NODE,
        True,
        False,
        True,
        "Node {node} was drained by an operator; the job waits again in its old place.",
    ),
    EndReason.INFEASIBLE: EndRule(
        JobState.FAILED,
        FailureClass.USER_CONFIG,
        False,
        False,
        False,
        "No node of the pool can ever hold this job: {detail}",
    ),
    EndReason.BUDGET_SPENT: EndRule(
        JobState.FAILED,
        FailureClass.NONE,
        True,
        False,
        True,
        "A budget was used up, and the time to save the work is over; the job waits again in its "
        "old place until there is a budget for it.",
    ),
    EndReason.PAUSED_BY_USER: EndRule(
        JobState.HELD, FailureClass.NONE, True, False, False, "Paused by {who}."
    ),
    EndReason.PAUSED_BY_ADMIN: EndRule(
        JobState.HELD, FailureClass.NONE, True, False, False, "Paused by operator {who}."
    ),
    EndReason.DEPENDENCY_NEVER: EndRule(
        JobState.CANCELLED,
        FailureClass.NONE,
        False,
        False,
        False,
        "Its dependency can never be met: it waited for job {job} {wanted}, which has {state}.",
    ),
    EndReason.BOOKING_ENDED: EndRule(
        JobState.FAILED,
        FailureClass.TIMEOUT,
        True,
        False,
        False,
        "Booking {booking}, in which it was to run, is over. Clone the job without it, or into "
        "another one, to go on.",
    ),
    EndReason.SESSION_IDLE: EndRule(
        JobState.SUCCEEDED,
        FailureClass.NONE,
        True,
        False,
        False,
        "Stopped after {limit} without anything done in the session. Start it again to go on.",
    ),
    EndReason.IDLE_PAUSED: EndRule(
        JobState.HELD, FailureClass.NONE, True, False, False, "Paused by {who}: {evidence}."
    ),
    EndReason.IDLE_STOPPED: EndRule(
        JobState.CANCELLED,
        FailureClass.NONE,
        True,
        False,
        False,
        "Stopped by {who}: {evidence}. Nobody said that it was still needed.",
    ),
    EndReason.CODE_DIFFERS: EndRule(
        JobState.FAILED,
        FailureClass.USER_CONFIG,
        False,
        False,
        True,
        "Its ranks fetched different code: commit {first:.12}, and rank {rank} on node {node} "
        "{commit:.12}. The time is not charged, and the next attempt takes the former.",
    ),
    EndReason.FINISH_BY_MISSED: EndRule(
        JobState.CANCELLED,
        FailureClass.NONE,
        False,
        False,
        False,
        "It had to be finished by {finish_by}, and its time limit of {limit} did not fit before "
        "that any more, so it was not started. Clone it with a shorter limit or a later moment.",
    ),
    EndReason.FINISH_BY_REACHED: EndRule(
        JobState.FAILED,
        FailureClass.TIMEOUT,
        True,
        False,
        False,
        "It had to be finished by {finish_by}, and was still running. Clone the job with a later "
        "moment, or keep it running then, to go on.",
    ),
    EndReason.MAX_COST_REACHED: EndRule(
        JobState.FAILED,
        FailureClass.TIMEOUT,
        True,
        False,
        False,
        "Its highest price was reached. Clone the job with a higher one to go on.",
    ),
    EndReason.MAX_COST_SPENT: EndRule(
        JobState.CANCELLED,
        FailureClass.NONE,
        False,
        False,
        False,
        "What is left of its highest price does not pay for another attempt, so none was "
        "started. Clone the job with a higher one to go on.",
    ),
    EndReason.SUPERSEDED: EndRule(
        JobState.CANCELLED,
        FailureClass.NONE,
        True,
        False,
        False,
        "Cancelled for {newer}, which is newer in its group {group}.",
    ),
}

# A job whose every attempt fails for the platform's reasons would otherwise circle forever.
MAX_FREE_RETRIES = 5
