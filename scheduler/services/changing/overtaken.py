"""Starts that were decided before their job asked for something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from scheduler.models import Device, Job, Node
from scheduler.selectors.machines.shapes import serving

if TYPE_CHECKING:
    from scheduler.services.placing import Start

# A job's version when it has been submitted and started: nothing else was done to it.
_UNTOUCHED = 2


class Overtaken(RuntimeError):
    """A start would give a job what it asks for no more."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"job {job_id} asks for something else by now")
        self.job_id = job_id


def refuse_overtaken(starts: Sequence[Start], jobs: Mapping[int, Job]) -> None:
    """Raises Overtaken for a start that does not suit its job, as it is under its lock now.

    No statement for jobs to which nothing was done since their submit, else one for each.
    """
    for start in starts:
        job = jobs[start.job_id]
        if job.version > _UNTOUCHED and not _suits(start, job):
            raise Overtaken(job.pk)


def _suits(start: Start, job: Job) -> bool:
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
