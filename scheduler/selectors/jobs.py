"""Jobs, for a viewer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils import timezone

from accounts.errors import NotFound
from accounts.held import picture_of
from accounts.models import User
from accounts.permissions import can, projects_visible_to, reads_inside
from accounts.statements import AskedOnceFor
from scheduler.models import Allocation, Attempt, Job, Placement
from scheduler.selectors.prices.seen import priced_for
from scheduler.spec import JobSpec
from scheduler.states import (
    AUTOMATIC_HOLDS,
    FINAL_JOB_STATES,
    LIVE_JOB_STATES,
    NOT_RELEASED,
    WAITING_JOB_STATES,
    EndReason,
    JobState,
    NodeState,
    WaitReason,
    end_sentence,
    shown_state,
    wait_sentence,
)

MAX_PK = 2**63 - 1


def visible_jobs(viewer: User) -> QuerySet[Job]:
    """Jobs of the projects the viewer may see; who runs or pays for the cluster sees that every
    job exists."""
    jobs = Job.objects.select_related("project__team", "owner", "pool", "queue", "job_set")
    if not viewer.is_authenticated:
        return jobs.none()
    if can(viewer, "see_jobs", None):
        return jobs
    return jobs.filter(project__in=projects_visible_to(viewer))


def get_visible_job(viewer: User, pk: int) -> Job:
    """Raises NotFound for a missing and for a foreign job alike."""
    return read_visible_job(_ONE, viewer, pk)


def _one(asked: tuple[User, None], pk: int) -> QuerySet[Job]:
    return visible_jobs(asked[0]).filter(pk=pk)


_ONE: AskedOnceFor[tuple[User, None]] = AskedOnceFor(_one)


def read_visible_job(
    query: AskedOnceFor[Any], viewer: User, pk: int, parts: Hashable = None
) -> Job:
    """The same from a query by viewer and `parts`, which gives these along as its attributes."""
    asked = viewer, parts
    rows = query.read(asked, picture_of(viewer, parts), pk) if 0 < pk <= MAX_PK else []
    if not rows:
        raise NotFound("There is no such job for you.")
    job: Job = rows[0]
    job.seen_by = viewer
    return job


def check_visible(viewer: User, job: Job) -> None:
    """Raises NotFound unless the viewer may see the job; asks nothing about the very object that
    `get_visible_job` has found for the very same viewer, which live as long as one request."""
    if job.seen_by is not viewer:
        get_visible_job(viewer, job.pk)


def get_visible_jobs(viewer: User, pks: Sequence[int]) -> list[Job]:
    """These jobs in this order, in one query. Raises NotFound for a missing and a foreign one."""
    found = visible_jobs(viewer).in_bulk([pk for pk in pks if 0 < pk <= MAX_PK])
    missing = [pk for pk in pks if pk not in found]
    if missing:
        raise NotFound(f"There is no job {missing[0]} for you.")
    return [found[pk] for pk in pks]


def one_of_each_set(jobs: QuerySet[Job], *, first: bool = False) -> QuerySet[Job]:
    """Of the tasks of a set among `jobs` the latest alone, or the `first`, which stands for all of
    them."""
    beyond = {"pk__lt" if first else "pk__gt": OuterRef("pk")}
    others = jobs.order_by().filter(job_set=OuterRef("job_set"), **beyond)
    return jobs.filter(Q(job_set__isnull=True) | ~Exists(others.values("pk")))


def attempts_of(viewer: User, job: Job) -> QuerySet[Attempt]:
    """The job's attempts with placements, nodes and devices, in four queries."""
    check_visible(viewer, job)
    return _attempts(job)


def _attempts(job: Job) -> QuerySet[Attempt]:
    ranks = Placement.objects.select_related("node").order_by("rank")
    placements = ranks.prefetch_related(allocations_shown())
    return job.attempts.order_by("number").prefetch_related(
        Prefetch("placements", queryset=placements)
    )


def allocations_shown() -> Prefetch:
    """What placements hold or held, with the devices, by index."""
    held = Allocation.objects.select_related("device").order_by("device__index")
    return Prefetch("allocations", queryset=held)


def latest_attempt(job: Job) -> tuple[int | None, int | None]:
    """How often it has been started, None if never, and how many warnings the logs of the latest
    attempt have, None while they are not counted; the job itself was visible already."""
    found = job.attempts.order_by("-number").values_list("number", "warnings").first()
    return found or (None, None)


def log_warnings_along() -> Subquery:
    """The same warnings, to come with rows of jobs."""
    tries = Attempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    return Subquery(tries.values("warnings")[:1])


def job_actions(viewer: User, job: Job) -> set[str]:
    """What the viewer may do to the job now: cancel, change, hold, pause, release, clone."""
    is_mine = job.owner_id == viewer.pk and can(viewer, "submit_job", job.project)
    may_act = is_mine or can(viewer, "manage_project", job.project) or can(viewer, "operate", None)
    waits_by_itself = job.state == JobState.HELD and job.wait_reason in AUTOMATIC_HOLDS
    possible = {
        "cancel": job.state not in FINAL_JOB_STATES,
        "change": job.state in (JobState.RUNNING, *WAITING_JOB_STATES),
        "hold": job.state == JobState.QUEUED or waits_by_itself,
        "pause": job.state in (JobState.STARTING, JobState.RUNNING),
        "release": job.state == JobState.HELD
        and job.wait_reason not in NOT_RELEASED
        and (job.wait_reason != WaitReason.HELD_BY_ADMIN or can(viewer, "operate", None)),
    }
    actions = {name for name, is_so in possible.items() if may_act and is_so}
    if can(viewer, "read_log", job.project):
        actions.add("clone")
    return actions


def may_read_inside(viewer: User, job: Job) -> bool:
    """Whether logs and the spec's code may be shown; to finance, foreign operators and programs
    whose token lacks `logs:read` they may not."""
    return reads_inside(viewer, job.project)


def clone_document(viewer: User, job: Job) -> dict[str, Any]:
    """The job's spec as a fresh document, for the form and for `clone`; raises NotFound."""
    # Not `may_read_inside`: a program may run again what it is not shown.
    if not can(viewer, "read_log", job.project):
        raise NotFound("There is no such job for you.")
    spec = JobSpec.model_validate(job.spec)
    spec = spec if job.owner_id == viewer.pk else priced_for(viewer, job, spec.run_by_another())
    return spec.afresh(timezone.now()).document() | {"hold": False}


def shown_spec(viewer: User, job: Job) -> JobSpec:
    """Its spec: its owner alone sees values of secrets, and its price who may see what it costs."""
    spec = JobSpec.model_validate(job.spec)
    return spec if job.owner_id == viewer.pk else priced_for(viewer, job, spec.for_others())


def own_jobs(viewer: User) -> QuerySet[Job]:
    """The viewer's jobs, the newest first; of an array the last task alone."""
    return one_of_each_set(visible_jobs(viewer).filter(owner=viewer)).order_by("-pk")


def unreachable_job_ids(jobs: list[Job]) -> set[int]:
    """Which of these live jobs sit on a node that is silent now; one query, none without any."""
    live = [job.pk for job in jobs if job.state in LIVE_JOB_STATES]
    silent = Placement.objects.filter(
        attempt__job__in=live,
        ended_at__isnull=True,
        node__state__in=(NodeState.SILENT, NodeState.LOST),
    )
    return set(silent.values_list("attempt__job_id", flat=True)) if live else set()


def shown_state_of(job: Job, unreachable: set[int] | frozenset[int] = frozenset()) -> str:
    """The word people see for the job's state."""
    return shown_state(job.state, job.end_shown, unreachable=job.pk in unreachable)


def wait_sentence_of(job: Job) -> str:
    """Why it waits, in one sentence; empty when it does not."""
    if job.state not in WAITING_JOB_STATES or not job.wait_reason:
        return ""
    return wait_sentence(job.wait_reason, job.wait_facts)


def end_sentence_of(job: Job) -> str:
    """How its latest attempt ended, in one sentence; empty when none has."""
    if not job.end_reason:
        return ""
    return end_sentence(EndReason(job.end_reason), job.end_facts)
