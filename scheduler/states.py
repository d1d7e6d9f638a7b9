"""Every state, every legal move, every reason with its sentence. Pure: standard library only.

States are few, reasons are rich. A state says *where* a job is; a reason says *why* and decides,
in one table cell, what follows: retry or not, billed or not, whose fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class JobState(StrEnum):
    """Where a job is; follows from its latest attempt, nobody sets it by hand."""

    HELD = "held"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    """One try to run a job, from assignment to its recorded end."""

    ASSIGNED = "assigned"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class NodeState(StrEnum):
    """What may be placed on a node. SILENT: the lease ran out, devices stay held."""

    READY = "ready"
    SILENT = "silent"
    DRAINING = "draining"
    DRAINED = "drained"
    QUARANTINED = "quarantined"
    LOST = "lost"
    RETIRED = "retired"


class DeviceHealth(StrEnum):
    """Whether a device may be offered; only HEALTHY ones are."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"
    FAILED = "failed"


class Tier(IntEnum):
    """Importance class of a job; a higher number is always sooner."""

    EXPLORATORY = 0
    NORMAL = 10
    URGENT = 20
    PRODUCTION = 30


JOB_MOVES: Mapping[JobState, frozenset[JobState]] = {
    JobState.HELD: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.QUEUED: frozenset(
        {JobState.HELD, JobState.STARTING, JobState.CANCELLED, JobState.FAILED}
    ),
    JobState.STARTING: frozenset(
        {
            JobState.RUNNING,
            JobState.STOPPING,
            JobState.QUEUED,
            JobState.SUCCEEDED,
            JobState.FAILED,
        }
    ),
    JobState.RUNNING: frozenset(
        {JobState.STOPPING, JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED}
    ),
    JobState.STOPPING: frozenset(
        {
            JobState.QUEUED,
            JobState.HELD,
            JobState.CANCELLED,
            JobState.SUCCEEDED,
            JobState.FAILED,
        }
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}

ATTEMPT_MOVES: Mapping[AttemptState, frozenset[AttemptState]] = {
    AttemptState.ASSIGNED: frozenset(
        {
            AttemptState.STARTING,
            AttemptState.RUNNING,
            AttemptState.STOPPING,
            AttemptState.ENDED,
        }
    ),
    AttemptState.STARTING: frozenset(
        {AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.ENDED}
    ),
    AttemptState.RUNNING: frozenset({AttemptState.STOPPING, AttemptState.ENDED}),
    AttemptState.STOPPING: frozenset({AttemptState.ENDED}),
    AttemptState.ENDED: frozenset(),
}

NODE_MOVES: Mapping[NodeState, frozenset[NodeState]] = {
    NodeState.READY: frozenset(
        {NodeState.SILENT, NodeState.DRAINING, NodeState.QUARANTINED, NodeState.RETIRED}
    ),
    NodeState.SILENT: frozenset(
        {
            NodeState.READY,
            NodeState.DRAINING,
            NodeState.DRAINED,
            NodeState.QUARANTINED,
            NodeState.LOST,
            NodeState.RETIRED,
        }
    ),
    NodeState.DRAINING: frozenset(
        {
            NodeState.READY,
            NodeState.DRAINED,
            NodeState.SILENT,
            NodeState.QUARANTINED,
            NodeState.RETIRED,
        }
    ),
    NodeState.DRAINED: frozenset(
        {NodeState.READY, NodeState.SILENT, NodeState.QUARANTINED, NodeState.RETIRED}
    ),
    NodeState.QUARANTINED: frozenset(
        {NodeState.READY, NodeState.DRAINING, NodeState.SILENT, NodeState.RETIRED}
    ),
    NodeState.LOST: frozenset(
        {
            NodeState.READY,
            NodeState.DRAINING,
            NodeState.DRAINED,
            NodeState.QUARANTINED,
            NodeState.RETIRED,
        }
    ),
    NodeState.RETIRED: frozenset(),
}

FINAL_JOB_STATES = frozenset(state for state, moves in JOB_MOVES.items() if not moves)
LIVE_JOB_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
WAITING_JOB_STATES = frozenset({JobState.HELD, JobState.QUEUED})
LIVE_ATTEMPT_STATES = frozenset(set(AttemptState) - {AttemptState.ENDED})


class FailureClass(StrEnum):
    """Whose fault an end was; drives retries, refunds and what happens to the node."""

    NONE = "none"
    USER_CODE = "user_code"
    USER_RESOURCE = "user_resource"
    USER_CONFIG = "user_config"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    INFRA_GPU = "infra_gpu"
    INFRA_NODE = "infra_node"
    PLATFORM = "platform"


class EndReason(StrEnum):
    """Why an attempt ended. `END_RULES` says what follows from each."""

    COMPLETED = "completed"
    EXIT_CODE = "exit_code"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    CANCELLED_BY_USER = "cancelled_by_user"
    CANCELLED_BY_ADMIN = "cancelled_by_admin"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    DEVICE_FAILED = "device_failed"
    START_FAILED = "start_failed"
    START_TIMEOUT = "start_timeout"
    SETUP_FAILED = "setup_failed"
    NODE_DRAINED = "node_drained"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, slots=True)
class EndRule:
    """What follows when an attempt ends for a reason.

    `final` is the job's state when no retry is left or allowed. `uses_user_retry`: the retry is
    taken from the number the user asked for; `retry_free`: the platform retries on its own bill.
    `sentence` has slots `{exit_code}`, `{node}`, `{limit}` filled by `end_sentence`.
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
        "Stopped to make room for a more important job; it waits again in its old place.",
    ),
    EndReason.NODE_LOST: EndRule(
        JobState.FAILED,
        FailureClass.INFRA_NODE,
        False,
        False,
        True,
        "Node {node} was lost. The time on it is not charged.",
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
        False,
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
}

# A job whose every attempt fails for the platform's reasons would otherwise circle forever.
MAX_FREE_RETRIES = 5


class WaitReason(StrEnum):
    """Why a waiting job waits, highest precedence first; a job shows exactly one."""

    INVALID_SPEC = "invalid_spec"
    INFEASIBLE_EVER = "infeasible_ever"
    POLICY_DENIED = "policy_denied"
    APPROVAL_WAIT = "approval_wait"
    BUDGET_EXHAUSTED = "budget_exhausted"
    HELD_BY_USER = "held_by_user"
    HELD_BY_ADMIN = "held_by_admin"
    DEPENDENCY_WAIT = "dependency_wait"
    BEGIN_TIME = "begin_time"
    QUOTA_HARD = "quota_hard"
    QUOTA_BORROW_LIMIT = "quota_borrow_limit"
    POOL_CLOSED = "pool_closed"
    MAINTENANCE_CONFLICT = "maintenance_conflict"
    RESERVATION_CONFLICT = "reservation_conflict"
    NODES_UNHEALTHY = "nodes_unhealthy"
    CAPACITY_BUSY = "capacity_busy"
    TOPOLOGY_FRAGMENTED = "topology_fragmented"
    ISOLATION_CONFLICT = "isolation_conflict"
    DATA_STAGING = "data_staging"
    PREEMPTION_IN_PROGRESS = "preemption_in_progress"
    BEHIND_HIGHER_PRIORITY = "behind_higher_priority"
    BACKFILL_WOULD_DELAY_HEAD = "backfill_would_delay_head"
    LICENCE_WAIT = "licence_wait"
    AUTOSCALE_PROVISIONING = "autoscale_provisioning"
    EVALUATING = "evaluating"


# Sentence with slots for the facts the engine hands over. A slot without a fact is shown as "?"
# so that a wrong fact can never turn a page into an error.
WAIT_SENTENCES: Mapping[WaitReason, str] = {
    WaitReason.INVALID_SPEC: "The request is not valid: {detail}",
    WaitReason.INFEASIBLE_EVER: (
        "No node of pool {pool} can ever hold it: needs {need}, the largest node has {largest}."
    ),
    WaitReason.POLICY_DENIED: "A rule forbids it: {detail}",
    WaitReason.APPROVAL_WAIT: "Waits for approval by {who}.",
    WaitReason.BUDGET_EXHAUSTED: "The budget of {project} is used up.",
    WaitReason.HELD_BY_USER: "Held by {who}. Release it to let it start.",
    WaitReason.HELD_BY_ADMIN: "Held by operator {who}: {detail}",
    WaitReason.DEPENDENCY_WAIT: "Waits for job {job}.",
    WaitReason.BEGIN_TIME: "Starts no earlier than {begin}.",
    WaitReason.QUOTA_HARD: "The team's own limit is reached: {used} of {limit} GPUs.",
    WaitReason.QUOTA_BORROW_LIMIT: "The team may borrow no more: {used} of {limit} GPUs.",
    WaitReason.POOL_CLOSED: "Queue {queue} is paused by an operator.",
    WaitReason.MAINTENANCE_CONFLICT: "Would run into maintenance at {begin}.",
    WaitReason.RESERVATION_CONFLICT: "The GPUs are booked from {begin}.",
    WaitReason.NODES_UNHEALTHY: (
        "Needs {need}; {down} of {nodes} nodes in pool {pool} take no work now ({states})."
    ),
    WaitReason.CAPACITY_BUSY: "Needs {need}; {free} of {total} GPUs in pool {pool} are free.",
    WaitReason.TOPOLOGY_FRAGMENTED: (
        "Needs {need}; {free} GPUs in pool {pool} are free, but at most {best} nodes "
        "hold enough of them."
    ),
    WaitReason.ISOLATION_CONFLICT: "Other tenants hold the free cards.",
    WaitReason.DATA_STAGING: "Its data is being brought to the node.",
    WaitReason.PREEMPTION_IN_PROGRESS: "Room is being made: {stopping} jobs are stopping.",
    WaitReason.BEHIND_HIGHER_PRIORITY: (
        "Needs {need}; {ahead} jobs are ahead of it in pool {pool}."
    ),
    WaitReason.BACKFILL_WOULD_DELAY_HEAD: "It would delay a job ahead of it.",
    WaitReason.LICENCE_WAIT: "Waits for licence {licence}.",
    WaitReason.AUTOSCALE_PROVISIONING: "More nodes are on their way.",
    WaitReason.EVALUATING: "The scheduler has not looked at it yet.",
}


class _Gaps(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def wait_sentence(reason: WaitReason | str, facts: Mapping[str, object]) -> str:
    """The one sentence that page, API and CLI print for a waiting job."""
    return WAIT_SENTENCES[WaitReason(reason)].format_map(_Gaps(facts))


def end_sentence(reason: EndReason | str, facts: Mapping[str, object]) -> str:
    """The one sentence that page, API and CLI print for an ended attempt."""
    return END_RULES[EndReason(reason)].sentence.format_map(_Gaps(facts))


def shown_state(state: JobState | str, end_reason: str = "", *, unreachable: bool = False) -> str:
    """The word people see: the state, made more precise by its reason."""
    if unreachable and state in LIVE_JOB_STATES:
        return "unreachable"
    if state == JobState.FAILED and end_reason == EndReason.TIME_LIMIT:
        return "timed out"
    if state == JobState.QUEUED and end_reason == EndReason.PREEMPTED:
        return "preempted"
    return str(state)
