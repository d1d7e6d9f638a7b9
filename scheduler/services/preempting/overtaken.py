"""Starts that were decided before their job asked for something else, its booking ended, or their
nodes were taken out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import connection
from django.db.models import QuerySet

from scheduler.models import Allocation, Booking, Device, Job, JobEvent, Node
from scheduler.selectors.machines.shapes import serving
from scheduler.states import JobState, NodeState

if TYPE_CHECKING:
    from scheduler.services.placing import Start
    from scheduler.services.preempting.ordering import Room

# A job's version when it has been submitted; one more once it is started.
_UNTOUCHED = 1
_ASKED_OTHERWISE = ("request_changed", "nodes_changed", "moved_to_pool")


class Overtaken(RuntimeError):
    """A start would give a job what it asks for no more, or what is no longer there for it."""

    def __init__(self, job_id: int, words: str = "asks for something else by now") -> None:
        super().__init__(f"job {job_id} {words}")
        self.job_id = job_id


def refuse_overtaken(starts: Sequence[Start | Room], jobs: Mapping[int, Job]) -> None:
    """Raises Overtaken for a start, or room for one, that does not suit its job, as it is under its
    lock now.

    One that was planned for less time than the job has by now may reach into what others were
    promised. No statement for jobs to which nothing was done since their submit, one for all others
    together, and one for each that asked for something else since.
    """
    for start in starts:
        planned_s = start.time_limit_s
        if planned_s is not None and jobs[start.job_id].time_limit_s > planned_s:
            raise Overtaken(start.job_id, "may run for longer by now")
    touched = [
        pk
        for pk, job in jobs.items()
        if job.version > _UNTOUCHED + (job.state == JobState.STARTING)
    ]
    if not touched:
        return
    events = JobEvent.objects.filter(job__in=touched, kind__in=_ASKED_OTHERWISE)
    changed = set(events.order_by().values_list("job_id", flat=True))
    for start in starts:
        if start.job_id in changed and not _suits(start, jobs[start.job_id]):
            raise Overtaken(start.job_id)


def refuse_outside_bookings(jobs: Mapping[int, Job], *, now: datetime) -> None:
    """Raises Overtaken for a job that would begin outside its booking's time, or in one that was
    cancelled since the plan.

    The plan has looked at it by its own clock; `now` may be that of who gave the devices back. No
    statement where no job is of a booking.
    """
    booked = {job.booked_in_id: pk for pk, job in jobs.items() if job.booked_in_id is not None}
    if not booked:
        return
    during = {"from_at__lte": now, "until_at__gte": now, "closed_as": ""}
    past = Booking.objects.filter(pk__in=booked).exclude(**during)
    for booking in past.order_by().values_list("pk", flat=True)[:1]:
        raise Overtaken(booked[booking], "would begin outside its booking")


def refuse_on_taken_out(starts: Sequence[Start]) -> None:
    """Raises Overtaken for a start on a node that takes no work any more; the others stay locked.

    Call once the placements are written and the devices locked. Who takes a node out locks the
    same rows: it has either been here before, which is seen now, or comes after the commit and
    finds what runs there. SQLite has one writer: there the first look at the nodes was the last.
    """
    if not connection.features.has_select_for_update:
        return
    wanted = {place.node_id for start in starts for place in start.placements}
    ready = Node.objects.filter(pk__in=wanted, state=NodeState.READY).order_by("pk")
    gone = wanted - set(ready.select_for_update(no_key=True).values_list("pk", flat=True))
    for start in starts:
        if any(place.node_id in gone for place in start.placements):
            raise Overtaken(start.job_id, "would start on a node that takes no work any more")


def why_dropped(starts: Sequence[Start]) -> dict[int, str]:
    """What keeps each of these planned starts from becoming fact as the rows are now, by job."""
    places = [place for start in starts for place in start.placements]
    wanted = {place.node_id for place in places}
    rows = Node.objects.filter(pk__in=wanted).order_by().values_list("pk", "name", "state")
    nodes = {pk: (name, state == NodeState.READY) for pk, name, state in rows}
    devices = {pk for place in places for pk in place.device_ids}
    held = Allocation.objects.filter(device__in=devices, released_at__isnull=True).order_by()
    taken = set(held.values_list("device_id", flat=True))
    return {start.job_id: _why(start, nodes, taken) for start in starts}


def _why(start: Start, nodes: Mapping[int, tuple[str, bool]], taken: Collection[int]) -> str:
    for place in start.placements:
        name, takes_work = nodes.get(place.node_id, ("a node that is gone", False))
        if not takes_work:
            return f"{name} takes no work"
        if any(device in taken for device in place.device_ids):
            return f"a GPU of {name} is held by another job"
    return "what was planned is not what it asks for"


def _suits(start: Start | Room, job: Job) -> bool:
    places = start.placements
    if not job.nodes_min <= len(places) <= job.nodes:
        return False
    nodes = {place.node_id for place in places}
    counts = {len(place.device_ids) for place in places}
    # Who has whole nodes has all devices of them, of whatever model.
    if min(counts) < job.gpus_per_node or (max(counts) > job.gpus_per_node and not job.exclusive):
        return False
    if not job.gpus_per_node:
        return Node.objects.filter(pk__in=nodes, pool=job.pool_id).count() == len(nodes)
    devices = [device for place in places for device in place.device_ids]
    return _fitting(job, devices).count() >= job.gpus_per_node * len(places)


def _fitting(job: Job, devices: Sequence[int]) -> QuerySet[Device]:
    mine = Device.objects.filter(pk__in=devices, node__pool=job.pool_id)
    found = Device.objects.none()
    for model in job.gpu_models or [job.gpu_model]:
        found = found | serving(mine, model, job.gpu_milli)
    return found
