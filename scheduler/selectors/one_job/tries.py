"""The attempts of a job as its tabs name them, without the devices they held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models
from django.db.models import QuerySet

from accounts.errors import NotFound
from accounts.models import User
from scheduler.models import Attempt, Job, Placement
from scheduler.selectors.jobs import check_visible
from scheduler.selectors.logs import check_reader


def tries_of(viewer: User, job: Job) -> QuerySet[Attempt]:
    """Oldest first, without their patches, which may be large; one query."""
    check_visible(viewer, job)
    return job.attempts.order_by("number").defer("code_patch")


def streams_of(viewer: User, job: Job) -> list[Attempt]:
    """Those that were placed, oldest first, with placements by rank and nodes, in one query;
    raises Forbidden as a log does."""
    check_visible(viewer, job)
    check_reader(viewer, job)
    rows = Placement.objects.filter(attempt__job=job).select_related("attempt", "node")
    tries: dict[int, tuple[Attempt, list[Placement]]] = {}
    for placement in rows.defer("attempt__code_patch").order_by("attempt__number", "rank"):
        attempt, its = tries.setdefault(placement.attempt_id, (placement.attempt, []))
        placement.attempt = attempt
        its.append(placement)
    found = [attempt for attempt, _ in tries.values()]
    for attempt, its in tries.values():
        attempt.job = job
        hand_over(attempt, "placements", its)
    return found


def hand_over(owner: models.Model, name: str, rows: list[Any]) -> None:
    """Let `owner.<name>.all()` be these rows, as after `prefetch_related`."""
    kept = getattr(owner, name).none()
    kept._result_cache = rows
    owner.__dict__.setdefault("_prefetched_objects_cache", {})[name] = kept


def stream_among(
    tries: Iterable[Attempt], attempt_number: int | None, rank: int
) -> Placement | None:
    """Equals `get_readable_placement` for tries of `streams_of`, oldest first; raises NotFound."""
    found = None
    for attempt in tries:
        if attempt_number in (None, attempt.number):
            found = next((one for one in attempt.placements.all() if one.rank == rank), found)
    if found is None and (attempt_number is not None or rank):
        raise NotFound("This job has no such attempt or rank.")
    return found
