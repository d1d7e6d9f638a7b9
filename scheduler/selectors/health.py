"""How the whole is doing, in a few cheap queries; names nobody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from scheduler.models import CycleRecord, Job, Node, SchedulerLease
from scheduler.states import JobState, NodeState


@dataclass(frozen=True, slots=True)
class Pulse:
    """Counts by state, every state present; `last_cycle_ms` is 0 before the first cycle."""

    jobs: dict[str, int]
    nodes: dict[str, int]
    has_scheduler: bool
    last_cycle_ms: float


def has_scheduler(*, now: datetime) -> bool:
    """Whether one holds the lease; one look at one row, for anybody may ask as often as they like.

    Raises the database's own error when it does not answer.
    """
    return SchedulerLease.objects.filter(expires_at__gt=now).exists()


def read_pulse(*, now: datetime) -> Pulse:
    """Raises the database's own error when it does not answer."""
    last = CycleRecord.objects.order_by("-id").values_list("duration_ms", flat=True).first()
    jobs = dict(Job.objects.order_by().values_list("state").annotate(Count("pk")))
    nodes = dict(Node.objects.order_by().values_list("state").annotate(Count("pk")))
    return Pulse(
        jobs={str(state): jobs.get(str(state), 0) for state in JobState},
        nodes={str(state): nodes.get(str(state), 0) for state in NodeState},
        has_scheduler=has_scheduler(now=now),
        last_cycle_ms=last or 0.0,
    )
