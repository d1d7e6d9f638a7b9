"""Why another job went before this one, from what was kept of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from accounts.errors import NotFound
from accounts.models import User
from scheduler.engine.explaining.standing import Standing, why_before
from scheduler.models import Job
from scheduler.selectors.jobs import MAX_PK, get_visible_job
from scheduler.states import JobState


@dataclass(frozen=True, slots=True)
class Precedence:
    """`code` names what decided: tier, overdue, share, length, age, number, fitted or pool.

    It is "not_first" if the other was not started before this job, "unknown" if its start was kept
    by a version that knew less.
    """

    job: int
    other: int
    other_started_at: datetime | None
    code: str
    sentence: str


def precedence_of(
    viewer: User, job: Job, other_pk: int, standing_now: Callable[[], Standing | None]
) -> Precedence:
    """Why the job numbered `other_pk` was started before `job`. Raises NotFound.

    `standing_now` says how `job` stands in the line at this moment, and is asked if it still waits.

    The other job's name, owner and spec stay hidden from those who may not see it; its tier, size
    and time of submit do not, as in the queue.
    """
    get_visible_job(viewer, job.pk)
    others = Job.objects.select_related("project")
    other = others.filter(pk=other_pk).first() if 0 < other_pk <= MAX_PK else None
    if other is None or other.pk == job.pk:
        raise NotFound("There is no such other job.")
    theirs = other.attempts.order_by("number").first()
    ours = job.attempts.order_by("number").first()
    if theirs is None or (ours is not None and ours.assigned_at < theirs.assigned_at):
        words = f"Job {other.pk} was not started before this job."
        return Precedence(job.pk, other.pk, None, "not_first", words)
    first = Standing.read(theirs.standing)
    if first is None:
        words = "Nothing is known of how it stood; it was started by an older version."
        return Precedence(job.pk, other.pk, theirs.assigned_at, "unknown", words)
    kept = Standing.read(ours.standing) if ours is not None else None
    waits = kept is None and job.state == JobState.QUEUED
    second = kept or (standing_now() if waits else None) or _standing_of(job, first)
    common = 1 + (job.project.team_id == other.project.team_id)
    if common > 1 and job.owner_id == other.owner_id:
        common += 1
    code, sentence = why_before(first, second, common_levels=common, second_waits=waits)
    return Precedence(job.pk, other.pk, theirs.assigned_at, code, sentence)


def _standing_of(job: Job, then: Standing) -> Standing:
    """What its row says of that moment: for a job that is not in the line, as it is held."""
    return Standing(
        job=job.pk,
        at_s=then.at_s,
        pool=job.pool.name,
        tier=job.tier,
        is_overdue=False,
        share=None,
        # No order but the time of submit is known of it.
        order="",
        length=0.0,
        queued_at_s=job.queued_at.timestamp(),
        gpus=job.gpus,
        nodes=job.nodes,
        place=0,
        passed=0,
    )
