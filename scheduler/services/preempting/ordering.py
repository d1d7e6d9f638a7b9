"""A plan's stops become fact: the victims are asked to stop, their devices kept for whom it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from scheduler.engine.preempting.claiming import victim_words
from scheduler.models import Attempt, Claim, Job, SchedulerLease
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempts
from scheduler.services.errors import LeaseLost
from scheduler.services.preempting.overtaken import Overtaken, refuse_overtaken
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.stopping import request_stop
from scheduler.services.timeline.segments import follow_devices
from scheduler.services.waits import record_waits
from scheduler.states import EndReason, JobState, WaitReason

# What is kept is void so long after the last victim's grace: a node that is silent by then is not
# waited for, the job competes anew.
CLAIM_SLACK = timedelta(seconds=120)
# A large checkpoint takes minutes to read back, and so long its attempt may last without devices.
UNREAD_S = 600
# Rooms are kept for those who wait, and for those who are being moved and wait in a moment.
_CLAIMANTS = (JobState.QUEUED, JobState.STOPPING)


@dataclass(frozen=True, slots=True)
class Victim:
    """A live job that has to go, and what spoke for it (plain JSON values).

    `resize`: the numbers of nodes it had and goes on with, if it only changes its size.
    """

    job_id: int
    facts: Mapping[str, object] = field(default_factory=dict)
    resize: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """Where a job will run once its victims have left, and for how long that was planned."""

    job_id: int
    placements: tuple[PlacedOn, ...]
    victims: tuple[Victim, ...]
    time_limit_s: int | None = None


def order_room(room: Room, *, lease_token: int, now: datetime) -> int:
    """Ask the victims to stop and keep the devices for the job; returns how many were asked.

    All of it or nothing. 1. The lease is still ours. 2. The victims' live attempts are locked; who
    has ended meanwhile needs no asking; so is the job's own, if it is moved. 3. The job still wants
    just that room. 4. The devices are kept, unless one is kept for somebody else by now. 5. The
    victims are asked, each told for whom. Raises LeaseLost.
    """
    try:
        return _order(room, lease_token, now)
    except IntegrityError:
        return 0


@transaction.atomic
def _order(room: Room, lease_token: int, now: datetime) -> int:
    if not SchedulerLease.objects.select_for_update().filter(token=lease_token).exists():
        raise LeaseLost(f"lease token {lease_token} is no longer valid")
    victims = {victim.job_id: victim for victim in room.victims}
    attempts = list(
        locked_live_attempts(Attempt.objects.filter(job_id__in={*victims, room.job_id}))
    )
    job = Job.objects.select_for_update(of=("self",)).select_related("pool").get(pk=room.job_id)
    if job.state not in _CLAIMANTS and job.pk not in victims:
        return 0
    try:
        refuse_overtaken([room], {job.pk: job})
    except Overtaken:
        return 0
    grace_s = max((attempt.stop_grace_s for attempt in attempts), default=0)
    is_moved = job.pk in victims or job.state == JobState.STOPPING
    keep_room(room, grace_s=grace_s, now=now, is_moved=is_moved)
    asked = [
        attempt.job_id
        for attempt in attempts
        if attempt.job_id in victims and _ask(attempt, victims[attempt.job_id], job, now)
    ]
    if job.state == JobState.QUEUED:
        _tell(job, asked, room, now)
    return len(asked)


def _ask(attempt: Attempt, victim: Victim, job: Job, now: datetime) -> bool:
    """Ask one victim to stop; who only changes its size is told how many nodes it goes on with."""
    if victim.resize is None:
        return request_stop(
            attempt=attempt,
            reason=EndReason.PREEMPTED,
            now=now,
            make_room_for=job,
            facts=victim.facts,
        )
    was, nodes = victim.resize
    grows = victim.job_id == job.pk
    for_what = "as nobody waits for the others" if grows else f"to make room for job {job.pk}"
    asked = request_stop(
        attempt=attempt,
        reason=EndReason.RESIZED,
        now=now,
        make_room_for=None if grows else job,
        facts=victim.facts,
        said={"was": was, "nodes": nodes, "for_what": for_what},
    )
    if asked:
        detail = {"was": was, "nodes": nodes, "for": for_what, **victim.facts}
        transitions.record_event(
            attempt.job, "resize_ordered", now=now, attempt=attempt, detail=detail
        )
    return asked


def keep_room(room: Room, *, grace_s: int, now: datetime, is_moved: bool = False) -> None:
    """Keep the room's devices for its job until the last grace is over, where the job itself
    `is_moved` until its last checkpoint is read, too; IntegrityError where one is kept for somebody
    else."""
    expires_at = now + timedelta(seconds=grace_s + UNREAD_S * is_moved) + CLAIM_SLACK
    claims = Claim.objects.bulk_create(
        Claim(
            job_id=room.job_id,
            node_id=placed.node_id,
            device_id=device_id,
            rank=placed.rank,
            cpus=placed.cpus,
            memory_mib=placed.memory_mib,
            expires_at=expires_at,
        )
        for placed in room.placements
        for device_id in placed.device_ids
    )
    follow_devices((claim.device_id for claim in claims), now=now, cause="kept")


def _tell(job: Job, asked: Sequence[int], room: Room, now: datetime) -> None:
    """The job's history and its page say at once that room is being made, and by whom."""
    victims = sorted(asked)
    detail: dict[str, object] = {"victims": victims, "stopping": victim_words(victims)}
    owners = {victim.facts.get("given_back_to") for victim in room.victims} - {None}
    if owners:
        detail["given_back_to"] = sorted(map(str, owners))[0]
    transitions.record_event(job, "room_ordered", now=now, detail=detail)
    facts = {"victims": victims, "stopping": victim_words(victims), "pool": job.pool.name}
    record_waits([(job.pk, WaitReason.PREEMPTION_IN_PROGRESS, facts)], now=now)
    transitions.tell_of_job(job)
