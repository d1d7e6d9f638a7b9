"""Lists of watches: of a job, of an array, and one's own."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from accounts.models import Project, User
from scheduler.models import JobWatch
from scheduler.selectors.jobs import get_visible_job, visible_jobs
from scheduler.selectors.people.watchers import is_open, who_may_see
from scheduler.selectors.sets import get_visible_set, visible_sets


def watchers_of_job(viewer: User, pk: int) -> QuerySet[JobWatch]:
    """The first first, with their persons, while it is not over; of a task those of its array.
    Raises NotFound for a missing and a foreign job alike."""
    job = get_visible_job(viewer, pk)
    return _seen(Q(job=job) if job.job_set_id is None else Q(job_set=job.job_set_id), job.project)


def watchers_of_set(viewer: User, pk: int) -> QuerySet[JobWatch]:
    """As `watchers_of_job`, for an array."""
    job_set = get_visible_set(viewer, pk)
    return _seen(Q(job_set=job_set), job_set.project)


def watched_by(viewer: User) -> QuerySet[JobWatch]:
    """What the viewer watches, is not over and may still be seen, the latest first; each with its
    job or set, its owner and project."""
    seen = Q(job__in=visible_jobs(viewer).values("pk"))
    seen |= Q(job_set__in=visible_sets(viewer).values("pk"))
    related = [f"{of}__{one}" for of in ("job", "job_set") for one in ("owner", "project__team")]
    rows = JobWatch.objects.filter(is_open(), seen, person=viewer)
    return rows.select_related(*related).order_by("-pk")


def _seen(of: Q, project: Project) -> QuerySet[JobWatch]:
    rows = JobWatch.objects.filter(of, is_open())
    return rows.filter(person__in=who_may_see(rows, project)).select_related("person")
