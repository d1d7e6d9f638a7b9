"""What the tasks of arrays are at, as columns that come along with other rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import (
    Avg,
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    OuterRef,
    Subquery,
)

from accounts.models.rows import as_rows, rows_in
from scheduler.models import Job
from scheduler.states import JobState

# How long a task ran that has ended.
TOOK = ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField())


@dataclass(frozen=True, slots=True)
class Told:
    """What the tasks of a set are at: how many by state, and how long those that succeeded took on
    average, None while none has."""

    counts: Mapping[str, int]
    mean: timedelta | None


def told_along(job_set: str) -> dict[str, Any]:
    """What the tasks of a set are at, to come with rows that name the set by this column."""
    tasks = Job.objects.filter(job_set=OuterRef(job_set)).order_by()
    by_state = tasks.values_list("state").annotate(count_=Count("pk"))
    succeeded = tasks.filter(state=JobState.SUCCEEDED).values("job_set")
    return {
        "counts_": as_rows(by_state, "state", "count_"),
        "mean_": Subquery(succeeded.annotate(mean=Avg(TOOK)).values("mean")),
    }


def told_in(found: Any) -> Told:
    """The same from such a row."""
    counts: dict[str, int] = dict.fromkeys(JobState, 0)
    counts |= {JobState(state): count for state, count in rows_in(found.counts_)}
    return Told(counts, found.mean_)
