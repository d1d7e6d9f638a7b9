"""Help, and the styleguide for those who build pages."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from accounts.errors import NotFound
from portal.pages.access import page, viewer_of
from portal.pages.showcase import showcase
from scheduler.states import JobState, WaitReason

# As `shown_state` names them.
_STATES = {
    JobState.HELD: "waits for a person, a time or another job; its page says which",
    JobState.QUEUED: "waits for the scheduler; its page says why",
    JobState.STARTING: "has its GPUs; the nodes prepare code and folders",
    JobState.RUNNING: "runs on all its nodes",
    JobState.STOPPING: "was asked to stop; its grace time runs",
    JobState.SUCCEEDED: "ended with exit code 0 and its log is complete",
    JobState.FAILED: "ended otherwise; its page says how and what to do",
    JobState.CANCELLED: "was ended by a person or by a rule, or could not start as it had to",
    "preempted": "made room for another job and waits to go on",
    "timed out": "was ended at its time limit, its last moment or its highest price",
    "unreachable": "its node is silent; whether it still runs is not known yet",
}
# In the order in which the scheduler asks; what nothing here decides is not explained.
_REASONS = {
    WaitReason.INVALID_SPEC: "the request was valid once and is not any more; clone and correct it",
    WaitReason.INFEASIBLE_EVER: "no node of the pool could ever hold it; ask for less per node",
    WaitReason.BUDGET_EXHAUSTED: (
        "a budget that it counts against has no room; ask for more, or for less time; of one in "
        "money, give the job a highest price that it pays for"
    ),
    WaitReason.MAX_COST_SHORT: (
        "prices rose, and its highest price pays for too little time; give it a higher one"
    ),
    WaitReason.HELD_BY_USER: "somebody of the team holds it; its page says why; release it",
    WaitReason.HELD_BY_ADMIN: "an operator holds it; its page says why",
    WaitReason.PAUSED: (
        "somebody of the team, or a rule for GPUs that do little, paused it; resume it to go on"
    ),
    WaitReason.DEPENDENCY_WAIT: (
        "other jobs or arrays must start or end first; then it is let go by itself"
    ),
    WaitReason.BEGIN_TIME: "it was asked to start later; then it takes its place in the line",
    WaitReason.STORAGE_PAUSE: "its storage failed; tried again after a pause, longer each time",
    WaitReason.RETRY_PAUSE: "a retry rule of its own lets it wait before it is tried again",
    WaitReason.ARRAY_LIMIT: "its array runs as many tasks at a time as it may; the next follows",
    WaitReason.QUOTA_HARD: "the team or project holds as many GPUs as it may; ask for more",
    WaitReason.QUOTA_BORROW_LIMIT: "beyond its own GPUs no more may be borrowed now; ask for more",
    WaitReason.POOL_CLOSED: "an operator has paused the queue",
    WaitReason.MAINTENANCE_CONFLICT: "it would still run when a maintenance of the nodes begins",
    WaitReason.RESERVATION_CONFLICT: "the nodes are booked for others before it would end",
    WaitReason.NODES_UNHEALTHY: "it would fit, but nodes of the pool take no work now",
    WaitReason.CAPACITY_BUSY: "other jobs hold the GPUs; it starts when enough are free",
    WaitReason.TOPOLOGY_FRAGMENTED: (
        "enough GPUs are free, but not together on nodes that have all else it asks for as well"
    ),
    WaitReason.ISOLATION_CONFLICT: "what is free lies on cards that its team may not share",
    WaitReason.PREEMPTION_IN_PROGRESS: "jobs that give way to it save their work; then it starts",
    WaitReason.BEHIND_HIGHER_PRIORITY: "jobs ahead of it need the GPUs first",
    WaitReason.BACKFILL_WOULD_DELAY_HEAD: "it would run past the time a job ahead can start",
    WaitReason.LICENCE_WAIT: "all seats of a licence that it needs are taken",
    WaitReason.START_DROPPED: (
        "there is room for it, but each start that was planned came to nothing; it is tried again "
        "by itself, and Health tells operators"
    ),
    WaitReason.EVALUATING: "the scheduler has not looked at it yet; it does so within seconds",
}


def glossary() -> list[tuple[str, str]]:
    """Every word that help explains, with its sentence; the word in small letters is its place."""
    return [(str(word), told) for word, told in (*_STATES.items(), *_REASONS.items())]


@page("GET")
def help_page(request: HttpRequest) -> HttpResponseBase:
    """Words, first steps, the command line and the API."""
    context = {
        "states": _STATES.items(),
        "reasons": _REASONS.items(),
        "address": settings.PUBLIC_URL,
    }
    return render(request, "help/help.html", context)


@page("GET")
def styleguide(request: HttpRequest) -> HttpResponseBase:
    """Every part once; staff only."""
    if not viewer_of(request).is_staff:
        raise NotFound()
    return render(request, "styleguide.html", showcase())
