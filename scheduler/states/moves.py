"""States and the legal moves between them."""

from __future__ import annotations

from collections.abc import Mapping
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


# Of these nothing comes until they are heard again, if they ever are.
UNHEARD_NODES = frozenset({NodeState.SILENT, NodeState.LOST, NodeState.RETIRED})


class BookingState(StrEnum):
    """What a booking is. RELEASED: nobody used it, so it was given back."""

    PLANNED = "planned"
    ACTIVE = "active"
    ENDED = "ended"
    CANCELLED = "cancelled"
    RELEASED = "released"


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
    JobState.QUEUED: frozenset({JobState.HELD, JobState.STARTING, JobState.CANCELLED}),
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
OPEN_JOB_STATES = frozenset(JobState) - FINAL_JOB_STATES
WAITING_JOB_STATES = frozenset({JobState.HELD, JobState.QUEUED})
LIVE_ATTEMPT_STATES = frozenset(set(AttemptState) - {AttemptState.ENDED})
