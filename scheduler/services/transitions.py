"""The only writers of state. Every move is legal, guarded, recorded and told.

Held jobs are moved many at a time, by `scheduler/services/holding/moves.py`.
A move is an `UPDATE … WHERE state IN (expected)`; zero rows mean another hand was faster, which
is a normal answer (False), not an error. Each function belongs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet

from accounts.models import User
from accounts.statements import BuiltOnce
from scheduler import events
from scheduler.ledger.periods import PERIOD_MOVES, PeriodState
from scheduler.models import Attempt, Device, Job, Node, Period, QuotaRequest
from scheduler.services.gathering import Step, afterwards
from scheduler.services.history import (
    change_desired,
    record_event,
    record_node_event,
    record_node_moves,
    tell_of_job,
    tell_of_node,
)
from scheduler.services.holding.following import followers_of
from scheduler.services.holding.moves import reconsider
from scheduler.services.inbox.holds import tell_of_holds
from scheduler.services.inbox.jobs import tell_of_ends, tell_of_starts
from scheduler.services.rows.locking import lock_devices_of
from scheduler.services.rows.updating import update_row
from scheduler.services.sharing.keeping.pledging import give_back
from scheduler.services.timeline.segments import (
    follow_attempts,
    follow_devices,
    follow_node,
    follow_nodes,
)
from scheduler.states import (
    ATTEMPT_MOVES,
    FINAL_JOB_STATES,
    JOB_MOVES,
    NODE_MOVES,
    REQUEST_MOVES,
    WAITING_JOB_STATES,
    AttemptState,
    DeviceHealth,
    JobState,
    NodeState,
    RequestState,
    WaitReason,
)

__all__ = [
    "IllegalMove",
    "change_desired",
    "move_attempt",
    "move_device",
    "move_job",
    "move_jobs_to_starting",
    "move_node",
    "move_nodes",
    "move_period",
    "move_request",
    "record_event",
    "record_node_event",
    "tell_of_job",
    "tell_of_node",
]


# A job that ran and waits again; its owner is told.
_LOST_ITS_PLACE = ("requeued", "retried")
# Theirs are told where somebody else did it.
_BY_HAND = ("held", "paused")


class IllegalMove(RuntimeError):
    """The program asked for a move that the tables in `scheduler/states` do not know."""


def move_job(
    job: Job,
    to: JobState,
    *,
    now: datetime,
    kind: str,
    actor: User | None = None,
    attempt: Attempt | None = None,
    detail: Mapping[str, object] | None = None,
    **fields: Any,
) -> bool:
    """Move one job; `fields` change in the same guarded update. False: it was moved meanwhile."""
    came_from = JobState(job.state)
    if to not in JOB_MOVES[came_from]:
        raise IllegalMove(f"job {job.pk}: {came_from} -> {to}")
    if to in FINAL_JOB_STATES:
        fields.setdefault("ended_at", now)
        fields |= {"wait_reason": "", "wait_facts": {}}
    elif to is JobState.QUEUED:
        fields.setdefault("wait_reason", WaitReason.EVALUATING)
        fields |= {"wait_facts": {}, "wait_checked_at": None}
    elif to is not JobState.HELD:
        fields |= {"wait_reason": "", "wait_facts": {}}
    changes = {"state": to, **fields}
    if not update_row(Job, job.pk, changes, guard={"state": came_from}, raised=("version",)):
        return False
    # As read anew, without asking: the row holds what was just written.
    for name, value in {**changes, "version": job.version + 1}.items():
        setattr(job, name, value)
    record_event(
        job, kind, now=now, actor=actor, attempt=attempt, came_from=came_from, to=to, detail=detail
    )
    tell_of_job(job)
    if to is JobState.QUEUED:
        events.wake_scheduler_on_commit()
    if to in FINAL_JOB_STATES and came_from in WAITING_JOB_STATES:
        give_back([job.pk])
    # What is over before its node has said that it runs has started all the same.
    if job.notify and job.started_at and came_from is JobState.STARTING:
        afterwards(Step.TELL, tell_of_starts, [job], now=now)
    if to in FINAL_JOB_STATES or kind in _LOST_ITS_PLACE:
        afterwards(Step.TELL, tell_of_ends, [job], now=now)
    elif kind in _BY_HAND:
        afterwards(Step.TELL, tell_of_holds, [job], now=now)
    if to in FINAL_JOB_STATES or to in (JobState.RUNNING, JobState.HELD):
        afterwards(Step.RECONSIDER, _let_followers_go, [job], now=now)
    return True


def _let_followers_go(jobs: Sequence[Job], *, now: datetime) -> None:
    reconsider(followers_of(jobs), now=now)


def move_jobs_to_starting(job_ids: Sequence[int], *, now: datetime) -> set[int]:
    """Queued jobs to STARTING, as one statement for many; returns those that really moved.

    Equals `move_job` in a loop, without its event: the caller records one per attempt. Who is
    cancelled when late stays once its time limit fits no more: time goes on while a cycle plans.
    """
    still_queued = {pk for (pk,) in _STARTABLE.read(job_ids, now)}
    # With PostgreSQL no two values of JSON are the same: a change of one cannot be built once.
    Job.objects.filter(pk__in=still_queued, state=JobState.QUEUED).update(
        state=JobState.STARTING, version=F("version") + 1, wait_reason="", wait_facts={}
    )
    return still_queued


def _startable(jobs: Sequence[int], now: datetime) -> QuerySet[Job, tuple[int]]:
    in_time = Q(start_by__isnull=True) | Q(start_by__gte=now)
    queued = Job.objects.select_for_update().filter(in_time, pk__in=jobs, state=JobState.QUEUED)
    return queued.order_by("pk").values_list("pk")


_STARTABLE = BuiltOnce(_startable)


def move_attempt(attempt: Attempt, to: AttemptState, *, now: datetime, **fields: Any) -> bool:
    """Move one attempt; False: it was moved meanwhile, and `attempt` is as it is now."""
    came_from = AttemptState(attempt.state)
    if to not in ATTEMPT_MOVES[came_from]:
        raise IllegalMove(f"attempt {attempt.pk}: {came_from} -> {to}")
    if to is AttemptState.ENDED:
        fields.setdefault("ended_at", now)
    moved = update_row(Attempt, attempt.pk, {"state": to, **fields}, guard={"state": came_from})
    if moved:
        # As read anew, without asking: the row holds what was just written.
        for name, value in {"state": to, **fields}.items():
            setattr(attempt, name, value)
        if to in (AttemptState.RUNNING, AttemptState.STOPPING):
            afterwards(Step.FOLLOW, follow_attempts, [attempt.pk], now=now, cause=str(to))
    else:
        # Only these fields: the job and its pool that were loaded along stay loaded.
        attempt.refresh_from_db(fields=["state", *fields])
    return moved


def move_node(
    node: Node,
    to: NodeState,
    *,
    now: datetime,
    kind: str,
    actor: User | None = None,
    reason: str = "",
    **fields: Any,
) -> bool:
    """Move one node; False: it was moved meanwhile."""
    came_from = NodeState(node.state)
    if to not in NODE_MOVES[came_from]:
        raise IllegalMove(f"node {node.name}: {came_from} -> {to}")
    lock_devices_of([node.pk])
    moved = Node.objects.filter(pk=node.pk, state=came_from).update(
        state=to,
        state_reason=reason[:255],
        desired_revision=F("desired_revision") + 1,
        **fields,
    )
    if not moved:
        return False
    node.refresh_from_db()
    follow_node(node.pk, now=now, cause=kind)
    record_node_event(node, kind, now=now, actor=actor, came_from=came_from, to=to, detail=reason)
    tell_of_node(node.pk)
    events.wake_scheduler_on_commit()
    return True


def move_nodes(
    chosen: QuerySet[Node], to: NodeState, *, now: datetime, kind: str, reason: str = ""
) -> set[int]:
    """Move the nodes that are still among `chosen` once they are locked; returns their keys.

    Equals `move_node` for each: a switch that fails takes hundreds of nodes along.
    """
    lock_devices_of(list(chosen.values_list("pk", flat=True)))
    rows = chosen.select_for_update(of=("self",), no_key=True).order_by("pk")
    moved = dict(rows.values_list("pk", "state"))
    for came_from in set(moved.values()):
        if to not in NODE_MOVES[NodeState(came_from)]:
            raise IllegalMove(f"nodes: {came_from} -> {to}")
    if moved:
        ids = list(moved)
        Node.objects.filter(pk__in=ids).update(
            state=to, state_reason=reason[:255], desired_revision=F("desired_revision") + 1
        )
        follow_nodes(ids, now=now, cause=kind)
        record_node_moves(moved, kind, now=now, to=to, detail=reason)
        for node_id in ids:
            tell_of_node(node_id)
        events.wake_scheduler_on_commit()
    return set(moved)


def move_device(
    device: Device,
    to: DeviceHealth,
    *,
    now: datetime,
    kind: str,
    actor: User | None = None,
    reason: str = "",
    **fields: Any,
) -> bool:
    """Move one device, a card with its parts; its node's history tells of it.

    False: it was moved meanwhile.
    """
    came_from = DeviceHealth(device.health)
    moved = Device.objects.filter(pk=device.pk, health=came_from).update(
        health=to, health_reason=reason[:255], **fields
    )
    if not moved:
        return False
    device.refresh_from_db()
    parts = device.slots.all()
    parts.update(health=to, health_reason=reason[:255])
    follow_devices([device.pk, *parts.values_list("pk", flat=True)], now=now, cause=kind)
    words = f"GPU {device.index}" + (f": {reason}" if reason else "")
    record_node_event(
        device.node, kind, now=now, actor=actor, came_from=came_from, to=to, detail=words
    )
    tell_of_node(device.node_id)
    events.wake_scheduler_on_commit()
    return True


def move_period(period: Period, to: PeriodState, **fields: Any) -> None:
    """Move a month of the books, under its row's lock; `fields` change along."""
    came_from = PeriodState(period.state)
    if to not in PERIOD_MOVES[came_from]:
        raise IllegalMove(f"period {period.name}: {came_from} -> {to}")
    Period.objects.filter(pk=period.pk, state=came_from).update(state=to, **fields)
    period.refresh_from_db()


def move_request(request: QuotaRequest, to: RequestState, *, version: int, **fields: Any) -> bool:
    """Move a request for quota from just this version; False if another hand was faster.

    The version goes up by one; `fields` change along.
    """
    came_from = RequestState(request.state)
    if to != came_from and to not in REQUEST_MOVES[came_from]:
        raise IllegalMove(f"request {request.pk}: {came_from} -> {to}")
    row = QuotaRequest.objects.filter(pk=request.pk, state=came_from, version=version)
    if not row.update(state=to, version=version + 1, **fields):
        return False
    request.refresh_from_db()
    return True
