"""What is saved of a job's work, for a viewer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accounts.models import User
from scheduler.models import Attempt, Job
from scheduler.selectors.jobs import may_read_inside, visible_jobs


@dataclass(frozen=True, slots=True)
class Saved:
    """A confirmed checkpoint: of which attempt, its step, size in bytes, SHA-256 and when taken.

    `path` on node `node` is empty for those who may not read inside the job.
    """

    attempt: int
    step: int
    bytes: int
    digest: str
    taken_at: datetime
    node: str
    path: str


def saved_by(viewer: User, job: Job, attempt: Attempt) -> Saved | None:
    """The attempt's last confirmed checkpoint; `placements` and their nodes may be prefetched."""
    if attempt.checkpoint_at is None:
        return None
    first = next((p for p in attempt.placements.all() if p.rank == 0), None)
    return Saved(
        attempt.number,
        attempt.checkpoint_step or 0,
        attempt.checkpoint_bytes or 0,
        attempt.checkpoint_digest,
        attempt.checkpoint_at,
        first.node.name if first else "",
        attempt.checkpoint_path if may_read_inside(viewer, job) else "",
    )


def latest_saved(viewer: User, job: Job) -> Saved | None:
    """The checkpoint of the last attempt that has one; None also for a job the viewer cannot see.

    The furthest one may be another, on a node that an earlier attempt ran on.
    """
    if job.seen_by is not viewer and not visible_jobs(viewer).filter(pk=job.pk).exists():
        return None
    found = (
        Attempt.objects.filter(job=job, checkpoint_at__isnull=False)
        .order_by("-number")
        .prefetch_related("placements__node")
        .first()
    )
    return saved_by(viewer, job, found) if found else None
