"""By which schedule a job was submitted."""

from __future__ import annotations

from django.db.models import OuterRef, Subquery
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from scheduler.models import Job, JobScheduleRun


def schedule_along() -> dict[str, Combinable]:
    """In the statement that reads the job: `schedule_`, its number, and `schedule_name_`; None for
    none. Of an array the row is that of its first task."""
    return {"schedule_": _first("schedule"), "schedule_name_": _first("schedule__name")}


def _first(column: str) -> Combinable:
    runs = JobScheduleRun.objects.order_by()
    # Each by an index of its own; both in one condition would read every row.
    own = runs.filter(job=OuterRef("pk")).values(column)[:1]
    of_array = runs.filter(job__job_set=OuterRef("job_set")).values(column)[:1]
    return Coalesce(Subquery(own), Subquery(of_array))


def schedule_number(job: Job) -> int | None:
    """Of a visible job; one statement, None for none."""
    of = {"job": job} if job.job_set_id is None else {"job__job_set": job.job_set_id}
    found = JobScheduleRun.objects.order_by().filter(**of)
    return found.values_list("schedule", flat=True).first()
