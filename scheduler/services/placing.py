"""Plan to rows: attempts, placements and allocations, all of a start or nothing of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from accounts.statements import BuiltOnce
from scheduler.failpoints import reach
from scheduler.models import (
    Allocation,
    Attempt,
    Claim,
    DeviceSegment,
    Job,
    JobEvent,
    Node,
    Placement,
)
from scheduler.services import transitions
from scheduler.services.checkpoints.resuming import Offer, led_by, resume_offers
from scheduler.services.errors import LeaseLost
from scheduler.services.finishing.limiting import limit_by_price
from scheduler.services.preempting.claims import drop_room
from scheduler.services.preempting.overtaken import (
    Overtaken,
    refuse_on_taken_out,
    refuse_outside_bookings,
    refuse_overtaken,
)
from scheduler.services.rows.adding import add_objects, add_rows
from scheduler.services.rows.locking import keep_lease
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.guard import LimitReached, Refusals, charge_starts
from scheduler.services.timeline.segments import follow_devices
from scheduler.spec import units
from scheduler.states import JobState, NodeState, WaitReason

# In `why_here`: where it starts, and where it would have.
_NODES_OF_WHY = ("node", "instead_of")
_REFUSED = (IntegrityError, LimitReached, Overtaken)


@dataclass(frozen=True, slots=True)
class Start:
    """A job, where its ranks go, where it stood in the order, and why there as the engine says.

    `time_limit_s`: for how long it was planned; None where nobody planned.
    """

    job_id: int
    placements: tuple[PlacedOn, ...]
    standing: Mapping[str, Any] = field(default_factory=dict)
    why_here: Mapping[str, Any] = field(default_factory=dict)
    time_limit_s: int | None = None


def start_attempts(
    starts: Sequence[Start], *, lease_token: int, now: datetime, refused: Refusals | None = None
) -> list[int]:
    """Make the starts fact; returns the ids of the jobs that really started.

    1. Check that the lease is still ours, inside the transaction.
    2. Move the jobs that still wait; the room that was kept for them is theirs now.
    3. Write their attempts, placements and allocations in three statements.
    4. Count them against the limits of their accounts.
    5. If a device or node was taken, a limit lowered or a job's request changed meanwhile, all are
       refused; then one by one, and only what is refused is dropped, by limits into `refused`.
    """
    if not starts:
        return []
    started: list[int] = []
    try:
        started = _start_all(starts, lease_token=lease_token, now=now)
        reach("scheduler.committed")
    except _REFUSED:
        for start in starts:
            try:
                started += _start_all([start], lease_token=lease_token, now=now)
            except (LimitReached, Overtaken) as error:
                # Room that was made for it as it was would be planned for again and again.
                drop_room(start.job_id, now=now)
                if refused is not None and isinstance(error, LimitReached):
                    refused[start.job_id] = error
            except IntegrityError:
                pass
    return started


@transaction.atomic
def _start_all(starts: Sequence[Start], *, lease_token: int, now: datetime) -> list[int]:
    if not keep_lease(lease_token):
        raise LeaseLost(f"lease token {lease_token} is no longer valid")
    reach("scheduler.locked")
    starts = _on_ready_nodes(starts)
    earlier = {job: (number, end) for job, number, end in _EARLIER.read([s.job_id for s in starts])}
    now = _after_all_ends(starts, [end for _, end in earlier.values()], now)
    moved = transitions.move_jobs_to_starting([start.job_id for start in starts], now=now)
    was_kept = _take_up_rooms(moved)
    kept = [start for start in starts if start.job_id in moved]
    jobs = {job.pk: job for job in _JOBS.read([start.job_id for start in kept])}
    refuse_overtaken(kept, jobs)
    refuse_outside_bookings(jobs, now=now)
    numbers = {job: number for job, (number, _) in earlier.items()}
    reach("scheduler.moved")
    kept, offers = _with_offers(kept, numbers, jobs)
    attempts = add_objects(
        Attempt(
            job_id=start.job_id,
            **_resume_fields(offers.get(start.job_id)),
            number=numbers.get(start.job_id, 0) + 1,
            stop_grace_s=jobs[start.job_id].spec["stop"]["grace"],
            standing=dict(start.standing),
            assigned_at=now,
        )
        for start in kept
    )
    reach("scheduler.attempts-written")
    devices = {s.job_id: [pk for p in s.placements for pk in p.device_ids] for s in kept}
    charge_starts(attempts, jobs, devices, now=now)
    limit_by_price(attempts, jobs, devices, now=now)
    reach("scheduler.charged")
    _place(kept, attempts, was_kept, now)
    refuse_on_taken_out(kept)
    reach("scheduler.placed")
    _record_starts(kept, attempts, jobs, now)
    reach("scheduler.recorded")
    _tell_nodes(kept)
    return [start.job_id for start in kept]


def _tell_nodes(starts: Sequence[Start]) -> None:
    """The other ranks of a gang are told of it once the first has a port, and are called then."""
    places = [place for start in starts for place in start.placements]
    first = {place.node_id for place in places if place.rank == 0}
    transitions.change_desired(first)
    for node in {place.node_id for place in places} - first:
        # For who looks at it: its devices are held.
        transitions.tell_of_node(node)


def _jobs(ids: Sequence[int]) -> QuerySet[Job]:
    return Job.objects.filter(pk__in=ids).select_related("pool", "project").order_by()


def _last_attempts(jobs: Sequence[int]) -> QuerySet[Attempt, tuple[Any, ...]]:
    found = Attempt.objects.filter(job_id__in=jobs).order_by().values_list("job_id")
    return found.annotate(Max("number"), Max("ended_at"))


def _open_since(devices: Sequence[int]) -> QuerySet[DeviceSegment, tuple[Any, ...]]:
    now_open = DeviceSegment.objects.filter(device_id__in=devices, end_s__isnull=True)
    return now_open.order_by().values_list("start_s")


def _ready(nodes: Sequence[int]) -> QuerySet[Node, tuple[Any, ...]]:
    return Node.objects.filter(pk__in=nodes, state=NodeState.READY).order_by().values_list("pk")


def _kept_for(jobs: Sequence[int]) -> QuerySet[Claim, tuple[Any, ...]]:
    return Claim.objects.filter(job_id__in=jobs).order_by().values_list("device_id")


_JOBS, _EARLIER = BuiltOnce(_jobs), BuiltOnce(_last_attempts)
_READY, _KEPT, _SINCE = BuiltOnce(_ready), BuiltOnce(_kept_for), BuiltOnce(_open_since)


def _after_all_ends(
    starts: Sequence[Start], ends: Iterable[datetime | None], now: datetime
) -> datetime:
    """Now, or the moment by which the jobs' last attempts have ended and the devices were free.

    Who gave a device back wrote the moment, to the second, by a clock that may be ahead of this one
    or was set meanwhile. What is held twice would be billed twice.
    """
    devices = sorted({pk for s in starts for placed in s.placements for pk in placed.device_ids})
    since_s = max((start_s for (start_s,) in _SINCE.rows(devices)), default=0)
    if since_s > now.timestamp():
        now = datetime.fromtimestamp(since_s + 1, tz=UTC)
    return max([now, *(end for end in ends if end is not None)])


def _with_offers(
    kept: Sequence[Start], numbers: Mapping[int, int], jobs: Mapping[int, Job]
) -> tuple[list[Start], dict[int, Offer]]:
    """What the jobs that ran before may resume from, and the starts, led by the nodes with that."""
    again = {start.job_id: start.placements for start in kept if start.job_id in numbers}
    offers = resume_offers(again, jobs)
    return [
        replace(start, placements=led_by(offers.get(start.job_id), start.placements))
        for start in kept
    ], offers


def _smaller(job: Job, nodes: int) -> dict[str, int]:
    """What to say of an elastic job that starts with fewer nodes than it could use."""
    return {"wanted_nodes": job.nodes} if nodes < job.nodes else {}


def _resume_fields(offer: Offer | None) -> dict[str, Any]:
    return {"resumes_id": offer.attempt_id, "resume_problem": offer.problem} if offer else {}


def _on_ready_nodes(starts: Sequence[Start]) -> list[Start]:
    """The starts whose nodes still take work; a node may have been drained since the plan."""
    wanted = {placed.node_id for start in starts for placed in start.placements}
    gone = wanted - {pk for (pk,) in _READY.rows(sorted(wanted))}
    return [s for s in starts if not any(placed.node_id in gone for placed in s.placements)]


def _take_up_rooms(job_ids: Collection[int]) -> list[int]:
    """What was kept for these jobs is kept no more; returns the devices."""
    devices = [device for (device,) in _KEPT.rows(sorted(job_ids))]
    if devices:
        Claim.objects.filter(job_id__in=job_ids).delete()
    return devices


def _place(
    kept: Sequence[Start], attempts: Sequence[Attempt], was_kept: Sequence[int], now: datetime
) -> None:
    pairs = [
        (placed, attempt)
        for start, attempt in zip(kept, attempts, strict=True)
        for placed in start.placements
    ]
    placements = add_objects(
        Placement(
            attempt=attempt,
            node_id=placed.node_id,
            rank=placed.rank,
            cpus=placed.cpus,
            memory_mib=placed.memory_mib,
        )
        for placed, attempt in pairs
    )
    held = [
        (placement.pk, device_id, now)
        for (placed, _), placement in zip(pairs, placements, strict=True)
        for device_id in placed.device_ids
    ]
    add_rows(Allocation, ("placement", "device", "acquired_at"), held)
    taken = [device_id for placed, _ in pairs for device_id in placed.device_ids]
    follow_devices([*taken, *was_kept], now=now, cause="assigned")


def _record_starts(
    kept: Sequence[Start], attempts: Sequence[Attempt], jobs: Mapping[int, Job], now: datetime
) -> None:
    ids = {start.why_here[key] for start in kept if start.why_here for key in _NODES_OF_WHY}
    names = dict(Node.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}
    add_objects(
        JobEvent(
            job_id=start.job_id,
            attempt=attempt,
            at=now,
            kind="assigned",
            from_state=JobState.QUEUED,
            to_state=JobState.STARTING,
            detail={"attempt": attempt.number, "nodes": len(start.placements)}
            | _smaller(jobs[start.job_id], len(start.placements))
            | _why_here(start.why_here, jobs[start.job_id], names)
            | ({"starts_anew": attempt.resume_problem} if attempt.resume_problem else {}),
        )
        for start, attempt in zip(kept, attempts, strict=True)
    )
    for start in kept:
        transitions.tell_of_job(jobs[start.job_id])


def _why_here(why: Mapping[str, Any], job: Job, names: Mapping[int, str]) -> dict[str, str]:
    """What to say of a job whose data had a say in where it starts."""
    if not why:
        return {}
    node, other = (names.get(why[key], "a node that is gone") for key in _NODES_OF_WHY)
    data, lacks = ", ".join(job.datasets or ()), why["missing_mib"]
    holds = f"lacks {units.format_size_mib(lacks)} of {data}" if lacks else f"holds {data}"
    more = units.format_size_mib(why["more_missing_mib"])
    return {"because": f"{node} {holds}: chosen before {other}, which lacks {more}"}


@transaction.atomic
def hold_poisoned(job_ids: Collection[int], *, detail: str, now: datetime) -> int:
    """Take jobs that the scheduler cannot handle out of its way, and say why; returns how many."""
    return sum(
        transitions.move_job(
            job,
            JobState.HELD,
            now=now,
            kind="held",
            wait_reason=WaitReason.INVALID_SPEC,
            wait_facts={"detail": detail[:500]},
        )
        for job in Job.objects.filter(pk__in=job_ids, state=JobState.QUEUED).select_related("pool")
    )
