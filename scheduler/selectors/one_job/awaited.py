"""The arrays that a job waits for, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q

from accounts.models import User
from scheduler.models import Job, SetDependency
from scheduler.selectors.sets import visible_sets
from scheduler.states import FINAL_JOB_STATES, DependencyKind, JobState, tasks_so_far


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


def sets_awaited(viewer: User, job: Job) -> list[AwaitedSet]:
    """Those whose end is still to come, of the sets the viewer may see; a foreign one is known by
    the number in the reason alone. One statement, none unless that names a set."""
    numbers = job.wait_facts.get("sets") if job.state == JobState.HELD else None
    if not numbers:
        return []
    is_over = Q(on__tasks__state__in=FINAL_JOB_STATES)
    is_begun = is_over | Q(on__tasks__started_at__isnull=False)
    rows = SetDependency.objects.filter(
        job=job, on__in=visible_sets(viewer).filter(pk__in=numbers).values("pk")
    )
    counted = rows.order_by("on", "kind").annotate(
        size=Count("on__tasks"),
        ended=Count("on__tasks", filter=is_over),
        begun=Count("on__tasks", filter=is_begun),
    )
    return [
        AwaitedSet(on, kind, size, begun if kind == DependencyKind.AFTER else ended)
        for on, kind, size, ended, begun in counted.values_list(
            "on", "kind", "size", "ended", "begun"
        )
    ]
