"""Why another job went before this one, from what was kept of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import takewhile

from django.db.models import F, Subquery

from accounts.errors import NotFound
from accounts.models import User
from accounts.trees import ways_up
from scheduler.engine.explaining.standing import Standing, why_before
from scheduler.models import Attempt, Job
from scheduler.selectors.jobs import MAX_PK, check_visible, get_visible_job, visible_jobs
from scheduler.states import JobState

# Of all attempts, so that a pool in which little starts is not searched back to its first day.
LOOKED_AT = 5000


@dataclass(frozen=True, slots=True)
class Precedence:
    """`code` names what decided: tier, overdue, share, length, age, yielded, number, fitted or
    pool.

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
    common = _common_levels(job, [other])[other.pk]
    return _precedence(job, other, theirs, ours, common, standing_now)


def went_before(
    viewer: User, job: Job, standing_now: Callable[[], Standing | None], *, limit: int = 12
) -> list[tuple[Job, bool, Precedence]]:
    """The jobs that its pool started last while it waited, the latest first: each with whether the
    viewer may know it, and why it went before. Three queries and two for what the viewer sees;
    looks at the latest LOOKED_AT attempts at most.
    """
    check_visible(viewer, job)
    ours = job.attempts.order_by("number").first()
    until = {} if ours is None else {"assigned_at__lt": ours.assigned_at}
    newest = Attempt.objects.order_by("-pk").values(looked=F("pk") - LOOKED_AT)[:1]
    found = (
        Attempt.objects.filter(
            pk__gt=Subquery(newest),
            number=1,
            job__pool=job.pool_id,
            assigned_at__gte=job.waits_since,
            **until,
        )
        .exclude(job=job)
        .select_related("job__project", "job__owner")
        .order_by("-pk")[:limit]
    )
    starts = list(found)
    seen = set(
        visible_jobs(viewer)
        .filter(pk__in=[one.job_id for one in starts])
        .values_list("pk", flat=True)
    )
    asked, common = cache(standing_now), _common_levels(job, [one.job for one in starts])
    return [
        (
            one.job,
            one.job_id in seen,
            _precedence(job, one.job, one, ours, common[one.job_id], asked),
        )
        for one in starts
    ]


def _precedence(
    job: Job,
    other: Job,
    theirs: Attempt | None,
    ours: Attempt | None,
    common: int,
    standing_now: Callable[[], Standing | None],
) -> Precedence:
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
    code, sentence = why_before(first, second, common_levels=common, second_waits=waits)
    if code == "age" and job.yielded_from and job.yielded_from < other.waits_since:
        code, sentence = "yielded", _yielded_words(job, other)
    return Precedence(job.pk, other.pk, theirs.assigned_at, code, sentence)


def _common_levels(job: Job, others: Sequence[Job]) -> dict[int, int]:
    """By other job (id): how many accounts both are in, from the organisation down; one query."""
    teams = {one.project.team_id for one in (job, *others)}
    above = ways_up(teams)
    way = {team: (*reversed(above[team]), team) for team in teams}
    mine, found = way[job.project.team_id], dict[int, int]()
    for other in others:
        pairs = zip(mine, way[other.project.team_id], strict=False)
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        is_same = job.project.team_id == other.project.team_id and job.owner_id == other.owner_id
        found[other.pk] = 1 + shared + is_same
    return found


def _yielded_words(job: Job, other: Job) -> str:
    if job.owner_id == other.owner_id:
        return "Their owner let it go before this job."
    return "This job let another of its owner's go first, and stands behind that one since."


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
