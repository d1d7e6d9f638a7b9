"""Waits for whole arrays: how far the tasks are, and whether that decides them; reads only.

One row says that a job waits for an array, however many tasks that has, and they are counted by the
database: a task that ends asks at most two statements, and none where its array is nobody's wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, Min, OuterRef, Q, QuerySet

from accounts.statements import AskedOnce, BuiltOnce
from scheduler.models import Job, JobSet, SetDependency
from scheduler.selectors.waits.tasks import ended_well, has_begun, has_ended, tasks_counted
from scheduler.states import FINAL_JOB_STATES, DependencyKind, JobState, WaitReason, tasks_so_far

_WANTED: Mapping[str, str] = {
    DependencyKind.AFTER: "to start",
    DependencyKind.AFTEROK: "to succeed",
    DependencyKind.AFTERNOTOK: "to end, not all of them well",
    DependencyKind.AFTERANY: "to end",
}


@dataclass(frozen=True, slots=True)
class Tally:
    """Tasks of an array: how many there are, have ended, ended well, have started or ended.

    `first_bad`: the lowest index of those that have ended otherwise than well, None for none.
    """

    size: int
    ended: int
    well: int
    begun: int
    first_bad: int | None = None


@dataclass(frozen=True, slots=True)
class NeededSet:
    """One end of all tasks of an array that is waited for; `group` as of `Needed`."""

    kind: str
    job_set: int
    tally: Tally
    group: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the dependency is fulfilled for good."""
        tally = self.tally
        if self.kind == DependencyKind.AFTER:
            return tally.begun == tally.size
        if self.kind == DependencyKind.AFTEROK:
            return tally.well == tally.size
        is_over = tally.ended == tally.size
        return is_over and (self.kind == DependencyKind.AFTERANY or tally.well < tally.size)

    @property
    def is_impossible(self) -> bool:
        """Whether it can never be fulfilled any more."""
        if self.kind == DependencyKind.AFTEROK:
            return self.tally.well < self.tally.ended
        return self.kind == DependencyKind.AFTERNOTOK and self.tally.well == self.tally.size

    @property
    def words(self) -> str:
        """What it waits for; without how far that is, which each end would change."""
        size = self.tally.size
        tasks = "the task" if size == 1 else f"all {size} tasks"
        return f"{tasks} of array {self.job_set}{of_group(self.group)} {_WANTED[self.kind]}"

    @property
    def so_far(self) -> str:
        """Such as "7 of 40 tasks done"."""
        is_start = self.kind == DependencyKind.AFTER
        done = self.tally.begun if is_start else self.tally.ended
        return tasks_so_far(self.kind, done, self.tally.size)

    @property
    def broken(self) -> dict[str, object]:
        """The facts of one that is impossible."""
        found = f"task {self.tally.first_bad} has not"
        if self.kind == DependencyKind.AFTERNOTOK:
            found = "all of them have succeeded"
        return {"set": self.job_set, "awaited": self.words, "found": found}


def of_group(name: str) -> str:
    """In words after the number of one that is older in it; empty for none."""
    return f" of its group {name}" if name else ""


def member_of(job: Job) -> tuple[int, int, str | None]:
    """Whose group it is of: by owner, project and name."""
    return job.owner_id, job.project_id, job.group_name


def tallies_of(sets: Collection[int]) -> dict[int, Tally]:
    """By array; one statement, none for none."""
    if not sets:
        return {}
    tasks = Job.objects.filter(job_set__in=sets).order_by()
    counted = tasks.values_list("job_set").annotate(
        **tasks_counted(), first_bad=Min("array_index", filter=has_ended() & ~ended_well())
    )
    return {number: Tally(*told) for number, *told in counted}


def needed_by(jobs: Sequence[Job]) -> dict[int, list[NeededSet]]:
    """The arrays that each of these jobs waits for; one statement, one more if any does, and one
    more where that is of a group."""
    rows = SetDependency.objects.filter(job__in=jobs).values_list("job_id", "kind", "on_id")
    waits = list(rows)
    tallies = tallies_of({on for _, _, on in waits})
    group_of = {job.pk: member_of(job) for job in jobs if job.group_name}
    members = _members({on for job_id, _, on in waits if job_id in group_of})
    found: dict[int, list[NeededSet]] = {}
    for job_id, kind, on in waits:
        is_older = kind == DependencyKind.AFTERANY and group_of.get(job_id) == members.get(on, ())
        group = members[on][-1] if is_older else ""
        found.setdefault(job_id, []).append(NeededSet(kind, on, tallies[on], group))
    return found


def _members(sets: Collection[int]) -> dict[int, tuple[int, int, str]]:
    """Of these arrays those of groups, as `member_of`; no statement for none."""
    if not sets:
        return {}
    rows = JobSet.objects.filter(pk__in=sets).values_list("pk", "owner", "project", "spec__group")
    return {pk: (owner, project, group) for pk, owner, project, group in rows if group}


def waiting_for_arrays(jobs: Iterable[Job]) -> list[int]:
    """The held jobs that wait for an array of which these tasks have just ended or started, if that
    has decided it. Those who end lock the array first: of two last ones the second sees the other.
    """
    moved = [job for job in jobs if job.job_set_id and _may_decide(job)]
    rows = _AWAITED.rows(sorted({job.job_set_id or 0 for job in moved}))
    going = {number for number, is_going, _ in rows if is_going}
    unbegun = {number for number, _, is_unbegun in rows if is_unbegun}
    awaited = {number for number, _, _ in rows}
    bad = {
        job.job_set_id
        for job in moved
        if job.state in FINAL_JOB_STATES and job.state != JobState.SUCCEEDED
    }
    decided = (
        Q(on__in=awaited - going)
        | Q(on__in=awaited & bad, kind=DependencyKind.AFTEROK)
        | Q(on__in=awaited - unbegun, kind=DependencyKind.AFTER)
    )
    if not (awaited - going or awaited & bad or awaited - unbegun):
        return []
    held = SetDependency.objects.filter(decided, job__state=JobState.HELD)
    return list(held.values_list("job_id", flat=True))


def _may_decide(job: Job) -> bool:
    return job.state in FINAL_JOB_STATES or job.state == JobState.RUNNING


def _open_ends() -> tuple[Exists, Exists]:
    """Of a set: whether a task has not ended, and whether one has not even started."""
    tasks = Job.objects.filter(job_set=OuterRef("pk")).order_by()
    return Exists(tasks.exclude(has_ended())), Exists(tasks.exclude(has_begun()))


def _awaited(sets: Sequence[int]) -> QuerySet[JobSet, tuple[Any, ...]]:
    is_awaited = Exists(SetDependency.objects.filter(on=OuterRef("pk")))
    return (
        JobSet.objects.filter(is_awaited, pk__in=sets).order_by().values_list("pk", *_open_ends())
    )


_AWAITED = BuiltOnce(_awaited)


def decided_arrays() -> tuple[Q, Q] | None:
    """Which rows of SetDependency are met, and which never will be, of the arrays that held jobs
    wait for and that are through; None where none is. One statement, and one more where one is."""
    over = [number for (number,) in _THROUGH.read()]
    if not over:
        return None
    met, never = Q(pk__in=[]), Q(pk__in=[])
    tallies = tallies_of(over)
    for kind in DependencyKind:
        states = {on: NeededSet(kind, on, tally) for on, tally in tallies.items()}
        met |= Q(kind=kind, on__in=[on for on, one in states.items() if one.is_met])
        never |= Q(kind=kind, on__in=[on for on, one in states.items() if one.is_impossible])
    return met, never


def _through() -> QuerySet[JobSet, tuple[Any, ...]]:
    held = Job.objects.filter(state=JobState.HELD, wait_reason=WaitReason.DEPENDENCY_WAIT)
    waited = held.filter(set_dependencies__isnull=False).values("set_dependencies__on")
    is_going, is_unbegun = _open_ends()
    through = JobSet.objects.filter(~is_going | ~is_unbegun, pk__in=waited)
    return through.order_by("pk").values_list("pk")[:MAX_DECIDED]


# Of so many arrays with one look; the next one brings the next.
MAX_DECIDED = 1_000
_THROUGH = AskedOnce(_through)
