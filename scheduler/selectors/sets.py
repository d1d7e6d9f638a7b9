"""Arrays, for a viewer: what their tasks are at, when they are done, what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import (
    Avg,
    Count,
    OuterRef,
    QuerySet,
)
from django.utils import timezone

from accounts.errors import NotFound
from accounts.models import User
from accounts.models.rows import as_rows, rows_in
from accounts.permissions import can, projects_visible_to
from scheduler.models import BulkCancel, Job, JobSet
from scheduler.selectors.jobs import MAX_PK, visible_jobs
from scheduler.selectors.people.watchers import Watcher, watchers_along, watchers_in
from scheduler.selectors.tables.of_sets import TOOK, Told, told_along, told_in
from scheduler.selectors.tables.so_far import costs_of_sets
from scheduler.selectors.waits.waiters import Waiters, waiters_along, waiters_in
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, WAITING_JOB_STATES, JobState
from scheduler.states.seconding import CancelOutcome

_NO_SET = "There is no such set of jobs for you."


@dataclass(frozen=True, slots=True)
class SetInFull:
    """A set with what its page says beside its tasks.

    `states`: of all tasks, by index; `reruns`: numbers of sets, oldest first; `proposals`: those
    that wait for a second person to end it, each with how many tasks it names; `waiters`: jobs that
    wait for all its tasks; `watchers`, while it is not over.
    """

    job_set: JobSet
    told: Told
    states: tuple[JobState, ...]
    reruns: tuple[int, ...]
    proposals: tuple[tuple[int, int], ...]
    waiters: Waiters
    watchers: list[Watcher]


@dataclass(frozen=True, slots=True)
class SetView:
    """A set and the sums of its tasks.

    `counts`: tasks by state, each state named. `done_at` is when the last task is likely to end,
    None if that cannot be said; then `done_why` says why. `cost` is None for those who may not
    see it.
    """

    job_set: JobSet
    state: str
    counts: Mapping[str, int]
    done_at: datetime | None
    done_why: str
    cost: Decimal | None

    @property
    def finished(self) -> int:
        """Tasks that have ended, however."""
        return sum(self.counts[state] for state in FINAL_JOB_STATES)

    @property
    def is_over(self) -> bool:
        """Whether every task has ended."""
        return self.finished >= self.job_set.size

    @property
    def live(self) -> int:
        """Tasks that hold their devices."""
        return sum(self.counts[state] for state in LIVE_JOB_STATES)

    @property
    def waiting(self) -> int:
        """Tasks that are still to start."""
        return sum(self.counts[state] for state in WAITING_JOB_STATES)


def visible_sets(viewer: User) -> QuerySet[JobSet]:
    """Sets of the projects the viewer may see; who runs or pays for the cluster sees that every
    set exists."""
    sets = JobSet.objects.select_related("project__team", "owner", "rerun_of")
    if not viewer.is_authenticated:
        return sets.none()
    if can(viewer, "see_jobs", None):
        return sets
    return sets.filter(project__in=projects_visible_to(viewer))


def get_visible_set(viewer: User, pk: int) -> JobSet:
    """Raises NotFound for a missing and for a foreign set alike."""
    found = visible_sets(viewer).filter(pk=pk).first() if 0 < pk <= MAX_PK else None
    if found is None:
        raise NotFound(_NO_SET)
    return found


def get_set_in_full(viewer: User, pk: int) -> SetInFull:
    """As `get_visible_set`, with what `set_views` counts, the sets that run it again, proposals to
    end it, who waits for it and who watches it, in the same statement."""
    again = JobSet.objects.filter(rerun_of=OuterRef("pk")).order_by()
    tasks = Job.objects.filter(job_set=OuterRef("pk")).order_by()
    proposals = BulkCancel.objects.filter(
        job_set=OuterRef("pk"), outcome=CancelOutcome.WAITING, lapses_at__gt=timezone.now()
    ).order_by()[:1]
    rows = visible_sets(viewer).annotate(
        **told_along("pk"),
        states_=as_rows(tasks, "array_index", "state"),
        reruns_=as_rows(again, "id"),
        proposals_=as_rows(proposals, "id", "named"),
        waiters_=waiters_along(viewer, job_set=pk),
        watchers_=watchers_along(job_set=pk),
    )
    found: Any = rows.filter(pk=pk).first() if 0 < pk <= MAX_PK else None
    if found is None:
        raise NotFound(_NO_SET)
    states = tuple(JobState(state) for _, state in sorted(rows_in(found.states_)))
    reruns = sorted(number for (number,) in rows_in(found.reruns_))
    waiting = tuple((number, named) for number, named in rows_in(found.proposals_))
    waiters = waiters_in(found.waiters_)
    is_over = set(states) <= FINAL_JOB_STATES
    watchers = [] if is_over else watchers_in(viewer, found.project, found.watchers_)
    return SetInFull(found, told_in(found), states, tuple(reruns), waiting, waiters, watchers)


def tasks_of(viewer: User, job_set: JobSet) -> QuerySet[Job]:
    """The tasks by index; none of a foreign set."""
    tasks = visible_jobs(viewer).filter(job_set=job_set).order_by("array_index")
    return tasks.select_related("project__team", "owner", "pool", "queue", "job_set")


def set_actions(viewer: User, view: SetView) -> set[str]:
    """What the viewer may do to the set now: cancel, rerun."""
    job_set = view.job_set
    is_mine = job_set.owner_id == viewer.pk and can(viewer, "submit_job", job_set.project)
    may_act = (
        is_mine or can(viewer, "manage_project", job_set.project) or can(viewer, "operate", None)
    )
    actions = set()
    if may_act and view.finished < job_set.size:
        actions.add("cancel")
    if may_act and view.counts[JobState.FAILED] and can(viewer, "submit_job", job_set.project):
        actions.add("rerun")
    return actions


def set_views(
    viewer: User,
    sets: Iterable[JobSet],
    *,
    now: datetime,
    costs: Mapping[int, Decimal] | None = None,
) -> dict[int, SetView]:
    """The sets by number; one statement where their projects are loaded and `costs` are known
    (where the viewer may see them), and two to ask for them."""
    sets = list(sets)
    if costs is None:
        costs = costs_of_sets(viewer, sets, now=now)
    tasks = Job.objects.filter(job_set__in=sets).order_by()
    counts: dict[int, dict[str, int]] = {s.pk: dict.fromkeys(JobState, 0) for s in sets}
    means: dict[int, timedelta] = {}
    told = tasks.values_list("job_set", "state").annotate(count=Count("pk"), mean=Avg(TOOK))
    for number, state, count, mean in told:
        counts[number][state] = count
        if state == JobState.SUCCEEDED and mean is not None:
            means[number] = mean
    return {
        s.pk: set_view(s, Told(counts[s.pk], means.get(s.pk)), costs.get(s.pk), now=now)
        for s in sets
    }


def set_view(job_set: JobSet, told: Told, cost: Decimal | None, *, now: datetime) -> SetView:
    """What is told of one set, and when it is done."""
    done_at, why = _estimate(told.counts, told.mean, now)
    return SetView(job_set, state_of(told.counts), told.counts, done_at, why, cost)


def state_of(counts: Mapping[str, int]) -> str:
    """One word for the set: what moves wins over what waits, what failed over what went well."""
    if any(counts[state] for state in LIVE_JOB_STATES):
        return JobState.RUNNING
    for state in (JobState.QUEUED, JobState.HELD, JobState.FAILED, JobState.CANCELLED):
        if counts[state]:
            return state
    return JobState.SUCCEEDED


def _estimate(
    counts: Mapping[str, int], mean: timedelta | None, now: datetime
) -> tuple[datetime | None, str]:
    """When the last task ends if as many run as now, each as long as those that succeeded.

    The running ones count whole: half of them are through on average, and the last is not.
    """
    left = sum(count for state, count in counts.items() if state not in FINAL_JOB_STATES)
    live = sum(counts[state] for state in LIVE_JOB_STATES)
    if not left:
        return None, "all tasks have ended"
    if mean is None:
        return None, "no task has succeeded yet, so none has shown how long it takes"
    if not live:
        return None, "none of its tasks runs now"
    return now + mean * -(-left // live), ""
