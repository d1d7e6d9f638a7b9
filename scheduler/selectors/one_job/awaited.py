"""The jobs and arrays that a job waits for, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Max, Q

from accounts.models import User
from scheduler.models import Job, SetDependency
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.sets import visible_sets
from scheduler.selectors.waits.tasks import tasks_counted
from scheduler.states import LIVE_ATTEMPT_STATES, DependencyKind, JobState, tasks_so_far

_TOLD = 10


@dataclass(frozen=True, slots=True)
class AwaitedSet:
    """A set that a job waits for: of `size` tasks so many have come so far as it waits for, which
    is their start or their end by `kind`."""

    id: int
    kind: str
    size: int
    done: int

    @property
    def words(self) -> str:
        """Such as "7 of 40 tasks done"."""
        return tasks_so_far(self.kind, self.done, self.size)


@dataclass(frozen=True, slots=True)
class AwaitedJob:
    """A job that another waits for.

    `ends_by`: when it ends at the latest, by the limit of the attempt that runs; `starts_by`: its
    p90, where it waits itself. Both are None where nobody knows, and for a job that the viewer may
    not see, whose state is empty.
    """

    id: int
    state: str = ""
    ends_by: datetime | None = None
    starts_by: datetime | None = None


def jobs_awaited(viewer: User, job: Job) -> list[AwaitedJob]:
    """Those that the reason of a held job names, the first ten. One statement, none unless it names
    a job."""
    numbers = job.wait_facts.get("numbers") if job.state == JobState.HELD else None
    if not numbers:
        return []
    asked = numbers[:_TOLD]
    live = Q(attempts__state__in=LIVE_ATTEMPT_STATES)
    rows = (
        visible_jobs(viewer)
        .filter(pk__in=asked)
        .annotate(began=Max("attempts__started_at", filter=live))
    )
    columns = rows.order_by().values_list("pk", "state", "time_limit_s", "began", "wait_facts")
    seen = {
        pk: AwaitedJob(
            pk, state, began and began + timedelta(seconds=limit_s), _starts_by(state, facts)
        )
        for pk, state, limit_s, began, facts in columns
    }
    return [seen.get(number, AwaitedJob(number)) for number in asked]


def _starts_by(state: str, facts: dict[str, object]) -> datetime | None:
    told = facts.get("start_p90_at") if state == JobState.QUEUED else None
    return datetime.fromtimestamp(told, UTC) if isinstance(told, int) else None


def sets_awaited(viewer: User, job: Job) -> list[AwaitedSet]:
    """Those whose end is still to come, of the sets the viewer may see; a foreign one is known by
    the number in the reason alone. One statement, none unless that names a set."""
    numbers = job.wait_facts.get("sets") if job.state == JobState.HELD else None
    if not numbers:
        return []
    rows: Any = SetDependency.objects.filter(
        job=job, on__in=visible_sets(viewer).filter(pk__in=numbers).values("pk")
    )
    counted = rows.order_by("on", "kind").annotate(**tasks_counted("on__tasks__"))
    return [
        AwaitedSet(on, kind, size, begun if kind == DependencyKind.AFTER else ended)
        for on, kind, size, ended, begun in counted.values_list(
            "on", "kind", "size", "ended", "begun"
        )
    ]
