"""Which jobs of schedules are over, and which of them failed: an array with all its tasks."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q, QuerySet

from scheduler.models import Job
from scheduler.states import FINAL_JOB_STATES, OPEN_JOB_STATES, JobState


def is_over() -> Q:
    """Of what came of due times: those whose job has ended, of an array every task."""
    going = _of_array().filter(state__in=OPEN_JOB_STATES)
    return Q(job__state__in=FINAL_JOB_STATES) & ~Q(Exists(going))


def has_failed() -> Q:
    """Of those that are over: whether the job failed, of an array any task, as its owner is
    told."""
    return Q(job__state=JobState.FAILED) | Q(Exists(_of_array().filter(state=JobState.FAILED)))


def _of_array() -> QuerySet[Job]:
    return Job.objects.filter(job_set=OuterRef("job__job_set")).order_by()
