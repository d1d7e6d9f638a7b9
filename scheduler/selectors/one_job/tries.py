"""The attempts of a job as its tabs name them, without the devices they held."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Prefetch, QuerySet

from accounts.errors import NotFound
from accounts.models import User
from scheduler.models import Attempt, Job, Placement
from scheduler.selectors.jobs import check_visible
from scheduler.selectors.logs import check_reader


def tries_of(viewer: User, job: Job) -> QuerySet[Attempt]:
    """Oldest first, without their patches, which may be large; one query."""
    check_visible(viewer, job)
    return job.attempts.order_by("number").defer("code_patch")


def streams_of(viewer: User, job: Job) -> QuerySet[Attempt]:
    """The same with placements and nodes, in two queries; raises Forbidden as a log does."""
    check_reader(viewer, job)
    placements = Placement.objects.select_related("node").order_by("rank")
    return tries_of(viewer, job).prefetch_related(Prefetch("placements", queryset=placements))


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
