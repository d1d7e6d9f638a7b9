"""How the jobs of a schedule stand: which still go on, and how many failed in a row."""

from __future__ import annotations

from django.db.models import Q

from scheduler.models import Job, JobSchedule, JobScheduleRun
from scheduler.selectors.recurring.ended import has_failed, is_over
from scheduler.spec.recurring.words import RunOutcome
from scheduler.states import OPEN_JOB_STATES

# Whoever has more jobs than this going on in one schedule has started them otherwise.
_LOOKED_AT = 50


def open_jobs(schedule: JobSchedule) -> list[Job]:
    """The jobs of it that wait or run, the oldest first; of an array one task that does."""
    runs = schedule.runs.filter(job__isnull=False).order_by("-at", "-pk")
    named = list(runs.values_list("job_id", "job__job_set_id")[:_LOOKED_AT])
    alone = [job for job, job_set in named if job_set is None]
    sets = [job_set for _, job_set in named if job_set is not None]
    found = (
        Job.objects.filter(Q(pk__in=alone) | Q(job_set__in=sets))
        .filter(state__in=OPEN_JOB_STATES)
        .select_related("job_set__project__team", "project__team", "owner", "pool")
        .order_by("pk")
    )
    once: dict[tuple[str, int], Job] = {}
    for job in found:
        once.setdefault(("set", job.job_set_id) if job.job_set_id else ("job", job.pk), job)
    return list(once.values())


def failed_in_a_row(schedule: JobSchedule) -> int:
    """How many of the last due times came to a job that failed, or an array with a task that did,
    or to none, refused; what was skipped or missed, or goes on, is passed over. None are looked at
    beyond `pause_after`."""
    is_told = Q(outcome=RunOutcome.REFUSED) | is_over()
    runs = schedule.runs.filter(is_told, at__gte=schedule.counted_from, by_hand=False)
    count = 0
    latest = runs.order_by("-due_at", "-pk").annotate(failed_=has_failed())
    for outcome, failed in latest.values_list("outcome", "failed_")[: schedule.pause_after]:
        if outcome != RunOutcome.REFUSED and not failed:
            break
        count += 1
    return count


def is_same_failure(schedule: JobSchedule, run: JobScheduleRun) -> bool:
    """Whether the due time before came to the same refusal, whatever times it stands for."""
    before = schedule.runs.exclude(pk=run.pk).order_by("-due_at", "-pk").first()
    if before is None or before.outcome != run.outcome:
        return False
    return before.said.startswith(run.said) or run.said.startswith(before.said)
