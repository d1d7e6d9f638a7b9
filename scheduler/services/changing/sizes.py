"""Another most of nodes for an elastic job; one that runs with more goes on with fewer."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import User
from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import Attempt, Booking, Job, MaintenanceWindow
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.bookings.fitting import open_bookings
from scheduler.services.changing.limits import adjust_pledges
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.history import record_event, tell_of_job
from scheduler.services.jobs import check_actor, locked_job
from scheduler.services.preempting.ordering import Room, keep_room
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.rows.updating import update_row
from scheduler.services.stopping import request_stop
from scheduler.spec import JobSpec
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, AttemptState, EndReason


def sizes_offered(job: Job) -> tuple[int, ...]:
    """The numbers of nodes that its owner may set as its most, the smallest first; one for a job
    that was not submitted as elastic."""
    spec = JobSpec.model_validate(job.spec)
    least, most = spec.nodes.least, int(spec.nodes)
    return tuple(spec.node_sizes) or tuple(range(least, most + 1))


@transaction.atomic
def set_nodes(
    *,
    actor: User,
    job: Job,
    nodes: int,
    version: int | None = None,
    may_run: bool = True,
    now: datetime | None = None,
) -> Job:
    """Let it have so many nodes at most, within what it was submitted with. A no-op if that is so.

    Not `may_run`: nobody has looked at who would wait for it, so one that has started is refused.

    1. Who waits starts with no more, and with no more than its highest price pays for.
    2. Who runs with more is asked to stop and goes on from its last checkpoint with that many of
       its nodes, its time limit before it again. They are kept for it, unless something is planned
       there within that time or it has licences, which are kept for nobody: then it competes.
    3. Who runs with fewer may grow up to it, as the scheduler decides.

    Raises Forbidden, Conflict, Invalid or StaleVersion.
    """
    now = now or timezone.now()
    attempt_id = job.attempts.order_by("-number").values_list("pk", flat=True).first()
    attempt = locked_live_attempt(attempt_id) if attempt_id else None
    job = locked_job(job)
    check_actor(actor, job, version)
    if job.state in FINAL_JOB_STATES:
        raise Conflict(f"The job has ended: it is {job.state}.")
    was = job.nodes
    if nodes == was:
        return job
    check_size(job, nodes)
    _check_moment(job, attempt, may_run)
    if not update_row(
        Job, job.pk, {"nodes": nodes}, guard={"state": job.state}, raised=("version",)
    ):
        raise Conflict("The job has just moved; try again.", code="try_again")
    job.refresh_from_db(fields=["nodes", "version"])
    if attempt is None:
        adjust_pledges(job, now)
    facts = {"was": was, "is": nodes}
    record_event(job, "nodes_changed", now=now, actor=actor, attempt=attempt, detail=facts)
    if attempt is not None:
        _go_on_with(nodes, job, attempt, actor, now)
    tell_of_job(job)
    events.wake_scheduler_on_commit()
    return job


def _check_moment(job: Job, attempt: Attempt | None, may_run: bool) -> None:
    if attempt is not None and not may_run:
        raise Conflict("The job has just started; look again and try.", code="try_again")
    if attempt is None and job.state in LIVE_JOB_STATES:
        raise Conflict("The job is just being started; try again in a second.", code="try_again")
    if attempt is not None and attempt.state == AttemptState.STOPPING:
        raise Conflict("The job is being stopped; try again when it waits or runs.")


def check_size(job: Job, nodes: int) -> None:
    """Raises Conflict or Invalid where it was not submitted for so many."""
    offered = sizes_offered(job)
    if len(offered) == 1:
        raise Conflict("It was submitted for one number of nodes; clone it to ask for another.")
    if nodes not in offered:
        raise Invalid(f"nodes: choose one of {', '.join(map(str, offered))}.", field="nodes")


def _go_on_with(nodes: int, job: Job, attempt: Attempt, actor: User, now: datetime) -> None:
    placements = list(
        attempt.placements.order_by("rank").prefetch_related("allocations").select_related("node")
    )
    if len(placements) <= nodes:
        return
    attempt.job = job
    said = {"was": len(placements), "nodes": nodes, "for_what": "as was asked for it"}
    if not request_stop(attempt=attempt, reason=EndReason.RESIZED, now=now, actor=actor, said=said):
        raise Conflict("The job has just moved; try again.", code="try_again")
    # Which of its nodes suit a topology is for the scheduler to say, when it starts again.
    if job.topology_level or job.licences:
        return
    kept = tuple(
        PlacedOn(
            node_id=one.node_id,
            rank=one.rank,
            device_ids=tuple(
                held.device_id for held in one.allocations.all() if held.released_at is None
            ),
            cpus=one.cpus,
            memory_mib=one.memory_mib,
        )
        for one in placements[:nodes]
    )
    policy = load_conf().policy
    until = now + timedelta(
        seconds=attempt.stop_grace_s + job.time_limit_s + policy.backfill_slack_s
    )
    if _is_planned_for(job, {one.node_id for one in kept}, until, now):
        return
    try:
        with transaction.atomic():
            room = Room(job.pk, kept, ())
            keep_room(room, grace_s=attempt.stop_grace_s, now=now, is_moved=True)
    except IntegrityError:
        pass  # One of them is kept for somebody else: it competes for its nodes.


def _is_planned_for(job: Job, nodes: set[int], until: datetime, now: datetime) -> bool:
    """Whether maintenance, or a booking that is not its own, begins on one of them before then."""
    ahead = {"pool": job.pool_id, "from_at__lt": until}
    windows = MaintenanceWindow.objects.filter(**ahead, cancelled_at=None, until_at__gt=now)
    if any(not where or nodes & set(where) for where in windows.values_list("nodes", flat=True)):
        return True
    bookings = Booking.objects.filter(open_bookings(now), **ahead).values_list("pk", "node_ids")
    return any(pk != job.booked_in_id and nodes & set(where) for pk, where in bookings)
