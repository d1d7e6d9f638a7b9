"""Why jobs wait, and the sentence that says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from scheduler.states.shown import fill


class WaitReason(StrEnum):
    """Why a waiting job waits, highest precedence first; a job shows exactly one."""

    INVALID_SPEC = "invalid_spec"
    INFEASIBLE_EVER = "infeasible_ever"
    POLICY_DENIED = "policy_denied"
    APPROVAL_WAIT = "approval_wait"
    BUDGET_EXHAUSTED = "budget_exhausted"
    MAX_COST_SHORT = "max_cost_short"
    HELD_BY_USER = "held_by_user"
    HELD_BY_ADMIN = "held_by_admin"
    PAUSED = "paused"
    DEPENDENCY_WAIT = "dependency_wait"
    BEGIN_TIME = "begin_time"
    STORAGE_PAUSE = "storage_pause"
    RETRY_PAUSE = "retry_pause"
    ARRAY_LIMIT = "array_limit"
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
    START_DROPPED = "start_dropped"
    EVALUATING = "evaluating"


# Held for one of these, a job is let go without anybody's hand.
AUTOMATIC_HOLDS = frozenset(
    {
        WaitReason.DEPENDENCY_WAIT,
        WaitReason.BEGIN_TIME,
        WaitReason.STORAGE_PAUSE,
        WaitReason.RETRY_PAUSE,
        WaitReason.ARRAY_LIMIT,
        WaitReason.BUDGET_EXHAUSTED,
        WaitReason.MAX_COST_SHORT,
    }
)

# Of one whose highest price is less than its whole time limit costs: what it may take, to be said
# to those as well who may not see what it costs.
PRICED_WORDS = "what is left of its highest price"

# Before another attempt, after failing storage or as a retry rule says: a person may cut it short.
RETRY_PAUSES = frozenset({WaitReason.STORAGE_PAUSE, WaitReason.RETRY_PAUSE})
NOT_RELEASED = AUTOMATIC_HOLDS - RETRY_PAUSES

# What nothing that becomes free can mend: the request has to change, or a rule.
FAULTS = frozenset({WaitReason.INVALID_SPEC, WaitReason.INFEASIBLE_EVER, WaitReason.POLICY_DENIED})

# Nothing stands in the way but the scheduler: for longer than a moment that is a fault of its own.
BY_SCHEDULER = frozenset({WaitReason.START_DROPPED, WaitReason.EVALUATING})

# What is looked at, as a person calls it, whether it stands in the way or not.
CHECK_TITLES: Mapping[WaitReason, str] = {
    WaitReason.INVALID_SPEC: "Valid request",
    WaitReason.INFEASIBLE_EVER: "Size of the nodes",
    WaitReason.POLICY_DENIED: "Rules",
    WaitReason.APPROVAL_WAIT: "Approval",
    WaitReason.BUDGET_EXHAUSTED: "Budget",
    WaitReason.MAX_COST_SHORT: "Highest price",
    WaitReason.HELD_BY_USER: "Hold",
    WaitReason.HELD_BY_ADMIN: "Hold by an operator",
    WaitReason.PAUSED: "Pause",
    WaitReason.DEPENDENCY_WAIT: "Other jobs",
    WaitReason.BEGIN_TIME: "Time to begin",
    WaitReason.STORAGE_PAUSE: "Storage",
    WaitReason.RETRY_PAUSE: "Wait of a retry rule",
    WaitReason.ARRAY_LIMIT: "Tasks at a time",
    WaitReason.QUOTA_HARD: "Quota",
    WaitReason.QUOTA_BORROW_LIMIT: "Borrowed GPUs",
    WaitReason.POOL_CLOSED: "Queue",
    WaitReason.MAINTENANCE_CONFLICT: "Maintenance",
    WaitReason.RESERVATION_CONFLICT: "Bookings",
    WaitReason.NODES_UNHEALTHY: "Nodes in order",
    WaitReason.CAPACITY_BUSY: "Free GPUs",
    WaitReason.TOPOLOGY_FRAGMENTED: "Room on nodes",
    WaitReason.ISOLATION_CONFLICT: "Shared cards",
    WaitReason.DATA_STAGING: "Data",
    WaitReason.PREEMPTION_IN_PROGRESS: "Room being made",
    WaitReason.BEHIND_HIGHER_PRIORITY: "Turn in the line",
    WaitReason.BACKFILL_WOULD_DELAY_HEAD: "Delays nobody ahead",
    WaitReason.LICENCE_WAIT: "Licences",
    WaitReason.AUTOSCALE_PROVISIONING: "New nodes",
    WaitReason.START_DROPPED: "Start as planned",
    WaitReason.EVALUATING: "First look",
}


class DependencyKind(StrEnum):
    """Which end of another job a job waits for."""

    AFTER = "after"
    AFTEROK = "afterok"
    AFTERNOTOK = "afternotok"
    AFTERANY = "afterany"


# Sentence with slots for the facts the engine hands over. A slot without a fact is shown as "?"
# so that a wrong fact can never turn a page into an error.
WAIT_SENTENCES: Mapping[WaitReason, str] = {
    WaitReason.INVALID_SPEC: "The request is not valid: {detail}",
    WaitReason.INFEASIBLE_EVER: (
        "No node of pool {pool} can ever hold it: needs {need}, the largest node has {largest}."
    ),
    WaitReason.POLICY_DENIED: "A rule forbids it: {detail}",
    WaitReason.APPROVAL_WAIT: "Waits for approval by {who}.",
    WaitReason.BUDGET_EXHAUSTED: (
        "The budget of {account} has {left} left; the job may take {asks}."
    ),
    WaitReason.MAX_COST_SHORT: (
        "Its highest price does not pay for {least} and the time to stop, as GPUs cost by now."
    ),
    WaitReason.HELD_BY_USER: "Held by {who}. Release it to let it start.",
    WaitReason.HELD_BY_ADMIN: "Held by operator {who}: {detail}",
    WaitReason.PAUSED: "Paused by {who}. {detail}Resume it to let it go on in its old place.",
    WaitReason.DEPENDENCY_WAIT: "Waits for {jobs}.",
    WaitReason.BEGIN_TIME: "Starts no earlier than {begin}.",
    WaitReason.STORAGE_PAUSE: "{why}; tried again at {until}, after a pause of {pause}.",
    WaitReason.RETRY_PAUSE: "Tries again at {until}, after a wait of {pause}; {why}.",
    WaitReason.ARRAY_LIMIT: (
        "At most {limit} tasks of its array run at a time; it follows when one of them ends."
    ),
    WaitReason.QUOTA_HARD: (
        "{account} may have {limit} {cap}; it has {used}, the job wants {gpus} more."
    ),
    WaitReason.QUOTA_BORROW_LIMIT: (
        "{account} has {used} of the {limit} GPUs that it may share or borrow; "
        "the job wants {gpus} more."
    ),
    WaitReason.POOL_CLOSED: "In pool {pool} the queue {queue} is paused by an operator.",
    WaitReason.MAINTENANCE_CONFLICT: (
        "It would cross the maintenance from {begin} to {until}{remedy}."
    ),
    WaitReason.RESERVATION_CONFLICT: "{booked}{remedy}.",
    WaitReason.NODES_UNHEALTHY: (
        "Needs {need}; {down} of {nodes} nodes in pool {pool} take no work now ({states})."
    ),
    WaitReason.CAPACITY_BUSY: "Needs {need}; {free} of {total} GPUs in pool {pool} are free.",
    WaitReason.TOPOLOGY_FRAGMENTED: (
        "Needs {need}; {free} GPUs in pool {pool} are free, but not together: "
        "nodes with room for it now: {best}."
    ),
    WaitReason.ISOLATION_CONFLICT: (
        "Needs {need}; {free} of {total} GPUs in pool {pool} are free, but on cards of other "
        "teams, which share them only if both allow it."
    ),
    WaitReason.DATA_STAGING: "Its data is being brought to the node.",
    WaitReason.PREEMPTION_IN_PROGRESS: "Room is being made for it: {stopping}.",
    WaitReason.BEHIND_HIGHER_PRIORITY: (
        "Needs {need}; {ahead} jobs are ahead of it in pool {pool}."
    ),
    WaitReason.BACKFILL_WOULD_DELAY_HEAD: "It would delay a job ahead of it.",
    WaitReason.LICENCE_WAIT: (
        "Waits for licence {licence}: needs {asked}, {free} of {total} are free."
    ),
    WaitReason.AUTOSCALE_PROVISIONING: "More nodes are on their way.",
    WaitReason.START_DROPPED: (
        "There is room for it, but it could not be started: {why}. Tried again at {until}."
    ),
    WaitReason.EVALUATING: "The scheduler has not looked at it yet.",
}


# What room lacks, where the usual sentence would not be true: GPUs in all, nodes for one that asks
# for no GPU, or something else than GPUs on the nodes that have them.
LACKS_GPUS, LACKS_NODES, LACKS_OTHER = "gpus", "nodes", "other"
_NODES_WITH_ROOM = "Needs {need}; nodes in pool {pool} with room for it now: {best}."
_BY_LACK: Mapping[tuple[WaitReason, str], str] = {
    (WaitReason.CAPACITY_BUSY, LACKS_NODES): _NODES_WITH_ROOM,
    (WaitReason.TOPOLOGY_FRAGMENTED, LACKS_NODES): _NODES_WITH_ROOM,
    (WaitReason.TOPOLOGY_FRAGMENTED, LACKS_GPUS): (
        "Needs {need}; {free} of {total} GPUs in pool {pool} are free, too few for it; "
        "nodes with room for it now: {best}."
    ),
    (WaitReason.TOPOLOGY_FRAGMENTED, LACKS_OTHER): (
        "Needs {need}; {free} GPUs in pool {pool} are free, but not on nodes with all else that "
        "it needs: nodes with room for it now: {best}."
    ),
}


def wait_sentence(reason: WaitReason | str, facts: Mapping[str, object]) -> str:
    """The one sentence that page, API and CLI print for a waiting job."""
    known = WaitReason(reason)
    lack = str(facts.get("lack", ""))
    sentence, said = _of_one(_BY_LACK.get((known, lack), WAIT_SENTENCES[known]), facts)
    return fill(sentence, _grouped(said))


# Facts that count what there may be thousands of.
_COUNTS = frozenset({"ahead", "asked", "down", "free", "gpus", "limit", "nodes", "total", "used"})

# What a fact is of, and how that is said where the fact is 1.
_ONE: tuple[tuple[str, str, str], ...] = (
    ("ahead", "{ahead} jobs are", "{ahead} job is"),
    ("limit", "{limit} tasks of its array run", "{limit} task of its array runs"),
)


def _of_one(sentence: str, facts: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """The sentence and its facts, where there is one job, one task or one GPU and not several."""
    for name, several, one in _ONE:
        if facts.get(name) == 1:
            sentence = sentence.replace(several, one)
    if facts.get("limit") == 1 and "cap" in facts:
        facts = {**facts, "cap": re.sub(r"(GPU|job)s\b", r"\1", str(facts["cap"]))}
    return sentence, facts


def _grouped(facts: Mapping[str, object]) -> Mapping[str, object]:
    """The facts, with commas between thousands of what is counted."""
    return {
        name: f"{value:,}" if name in _COUNTS and isinstance(value, int) else value
        for name, value in facts.items()
    }


def tasks_so_far(kind: DependencyKind | str, done: int, size: int) -> str:
    """How far an array is for one that waits for this of all its tasks: "7 of 40 tasks done"."""
    word = "started" if kind == DependencyKind.AFTER else "done"
    return f"{done} of {size} task{'' if size == 1 else 's'} {word}"


# Why nobody can say when a job starts that waits for this. Reasons that wait for room, for a limit
# of the account or for licences have a forecast, unless what ends is never enough.
_NO_FORECAST: Mapping[WaitReason, str] = {
    WaitReason.INVALID_SPEC: "It can never start as it is.",
    WaitReason.INFEASIBLE_EVER: "It can never start as it is.",
    WaitReason.POLICY_DENIED: "It can never start as it is.",
    WaitReason.APPROVAL_WAIT: "It starts only after it is approved.",
    WaitReason.BUDGET_EXHAUSTED: "It depends on when the budget is raised or the next one begins.",
    WaitReason.MAX_COST_SHORT: "It depends on when GPUs cost less.",
    WaitReason.HELD_BY_USER: "It starts only after it is released.",
    WaitReason.HELD_BY_ADMIN: "It starts only after it is released.",
    WaitReason.DEPENDENCY_WAIT: "It depends on when what it waits for ends.",
    WaitReason.ARRAY_LIMIT: "It depends on when another task of its array ends.",
    WaitReason.BEGIN_TIME: "It is looked at again at the time it names.",
    WaitReason.STORAGE_PAUSE: "It is looked at again at the time it names.",
    WaitReason.RETRY_PAUSE: "It is looked at again at the time it names.",
    WaitReason.QUOTA_HARD: "It depends on which of the team's jobs end first.",
    WaitReason.QUOTA_BORROW_LIMIT: "It depends on which of the team's jobs end first.",
    WaitReason.POOL_CLOSED: "Nobody knows when the queue is resumed.",
    WaitReason.MAINTENANCE_CONFLICT: "It depends on when the maintenance ends.",
    WaitReason.RESERVATION_CONFLICT: "It depends on when the booking ends.",
    WaitReason.NODES_UNHEALTHY: "Nobody knows when the nodes are back.",
    WaitReason.ISOLATION_CONFLICT: "It depends on when the other tenants leave.",
    WaitReason.DATA_STAGING: "It depends on how fast its data arrives.",
    WaitReason.PREEMPTION_IN_PROGRESS: "It starts as soon as they have stopped.",
    WaitReason.LICENCE_WAIT: "Nobody knows when enough licences are back.",
    WaitReason.AUTOSCALE_PROVISIONING: "Nobody knows when the new nodes are ready.",
    WaitReason.START_DROPPED: "It is tried again at the time it names.",
    WaitReason.EVALUATING: "The scheduler has not looked at it yet.",
}


_ASKED = ("gpus", "limit")
_NO_FACTS: Mapping[str, object] = MappingProxyType({})


def why_no_forecast(reason: WaitReason, facts: Mapping[str, object] = _NO_FACTS) -> str:
    """Why there is no estimate of the start of a job that waits for this reason."""
    asks, limit = (
        value if isinstance(value, int | float) else 0 for value in map(facts.get, _ASKED)
    )
    if reason is WaitReason.QUOTA_HARD and asks > limit:
        return "It asks for more than the limit and starts only once that is raised."
    if facts.get("is_out_of_reach"):
        return (
            "It asks for more than may be shared or borrowed at all: ask for fewer, or for quota."
        )
    return _NO_FORECAST.get(reason, "What it waits for has no end in sight.")
