"""What stands at the foot of a table of jobs: how many match, and what they hold and ask for."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, QuerySet

from accounts.models.rows import Counted, counted, rows_in
from scheduler.models import Allocation, Job
from scheduler.states import LIVE_JOB_STATES, JobState

# Long lists are not counted to their end: their page would last as long as they are.
COUNTED_AT_MOST = 1000
WAITING_AT_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Totals:
    """`jobs`: how many there are, each task of a set by itself, and of those with GPUs that wait
    how many (`queued`, and `kept` of those that somebody holds); each one more than is counted at
    most where there are more.

    `held`: GPUs, and parts of some, that they hold now; `asked`: for how many of them those in the
    queue ask that were counted, `kept_asked`: those that somebody holds.
    """

    jobs: int = 0
    held: int = 0
    queued: int = 0
    asked: int = 0
    kept: int = 0
    kept_asked: int = 0

    @property
    def count(self) -> str:
        """How many jobs, such as `114`, or `more than 1,000`."""
        is_cut = self.jobs > COUNTED_AT_MOST
        return f"more than {COUNTED_AT_MOST:,}" if is_cut else f"{self.jobs:,}"

    @property
    def is_asked_cut(self) -> bool:
        """Whether more of them are in the queue than were counted."""
        return self.queued > WAITING_AT_MOST

    @property
    def is_kept_cut(self) -> bool:
        """Whether somebody holds more of them than were counted."""
        return self.kept > WAITING_AT_MOST


def totals_of(jobs: QuerySet[Job]) -> Totals:
    """One statement. What jobs hold is counted by their devices: who runs with fewer nodes than it
    may have holds fewer, and what has ended holds none."""
    if jobs.query.is_empty():
        return Totals()
    every = jobs.order_by()
    live = every.filter(state__in=LIVE_JOB_STATES).values("pk")
    held = Allocation.objects.filter(released_at=None, placement__attempt__job__in=live).order_by()
    queued, kept = (_asked(every.filter(state=state)) for state in (JobState.QUEUED, JobState.HELD))
    figures = (counted(every[: COUNTED_AT_MOST + 1]), counted(held), queued, kept)
    # Beside any job; where there is none, all of it is nothing.
    for row in Job.objects.order_by().values_list(*figures)[:1]:
        return Totals(*(figure for text in row for figure in rows_in(text)))
    return Totals()


def _asked(waiting: QuerySet[Job]) -> Counted:
    """Those with GPUs, and for how many they ask. The jobs are named first, which an index does
    alone: SQLite would go through all that a project ever had beside a bound on their GPUs."""
    some = Job.objects.filter(pk__in=waiting.values("pk"), gpus_per_node__gt=0).order_by()
    return counted(
        some.annotate(gpus_=F("nodes") * F("gpus_per_node"))[: WAITING_AT_MOST + 1], "gpus_"
    )
