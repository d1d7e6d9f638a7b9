"""Why a held job may not wait for room yet; reads only, for many jobs at once.

Each obstacle is looked up in the order of its reason's precedence, so that a job shows the first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, Q

from scheduler.models import Dependency, Job, JobSet
from scheduler.services.holding.arrays import NeededSet, member_of, needed_by, of_group
from scheduler.states import (
    FINAL_JOB_STATES,
    OPEN_JOB_STATES,
    DependencyKind,
    JobState,
    WaitReason,
    span_words,
    stamp,
)

_SHOWN = 3
_WANTED: Mapping[str, str] = {
    DependencyKind.AFTER: "to start",
    DependencyKind.AFTEROK: "to succeed",
    DependencyKind.AFTERNOTOK: "to fail",
    DependencyKind.AFTERANY: "to end",
}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What is in the way: why it waits, or, `is_final`, why it can never start."""

    reason: WaitReason
    facts: dict[str, object] = field(default_factory=dict)
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Needed:
    """One end of another job that is waited for; `None` state: for an earlier namesake. `group`: of
    the group in which the one that waits is newer, empty for one that it names itself."""

    kind: str
    job: int
    state: str
    has_started: bool
    group: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the dependency is fulfilled for good."""
        is_over = self.state in FINAL_JOB_STATES
        if self.kind == DependencyKind.AFTER:
            return is_over or self.has_started
        if self.kind == DependencyKind.AFTEROK:
            return self.state == JobState.SUCCEEDED
        if self.kind == DependencyKind.AFTERNOTOK:
            return is_over and self.state != JobState.SUCCEEDED
        return is_over

    @property
    def is_impossible(self) -> bool:
        """Whether it can never be fulfilled any more."""
        return self.state in FINAL_JOB_STATES and not self.is_met


def dependency_obstacle(
    needed: Iterable[Needed], arrays: Iterable[NeededSet] = (), *, namesakes: bool = False
) -> Obstacle | None:
    """The obstacle that dependencies are, None if all are met.

    `namesakes`: a singleton waits for earlier jobs of its owner under the same name. How many is
    not said, nor how far an array is: each end would change it for all that wait, a line of history
    each.
    """
    ordered = sorted(needed, key=lambda one: one.job)
    in_whole = sorted(arrays, key=lambda one: one.job_set)
    facts = _broken(ordered, in_whole)
    if facts is not None:
        return Obstacle(WaitReason.DEPENDENCY_WAIT, facts, is_final=True)
    missing = [one for one in ordered if not one.is_met]
    open_sets = [one for one in in_whole if not one.is_met]
    if not missing and not open_sets and not namesakes:
        return None
    said = [f"job {one.job}{of_group(one.group)} {_WANTED[one.kind]}" for one in missing]
    said += [one.words for one in open_sets]
    words = said[:_SHOWN]
    if len(said) > _SHOWN:
        words.append(f"{len(said) - _SHOWN} more")
    if namesakes:
        words.append("the earlier jobs of the same name to end")
    told: dict[str, object] = {"jobs": ", ".join(words), "numbers": [one.job for one in missing]}
    if open_sets:
        told["sets"] = [one.job_set for one in open_sets]
    groups = [one.group for one in missing] + [one.group for one in open_sets]
    if any(groups):
        told["group"] = max(groups)
    return Obstacle(WaitReason.DEPENDENCY_WAIT, told)


def _broken(needed: Iterable[Needed], arrays: Iterable[NeededSet]) -> dict[str, object] | None:
    """The facts of the first that can never be met."""
    for one in needed:
        if one.is_impossible:
            return {"job": one.job, "state": one.state, "wanted": _WANTED[one.kind]}
    return next((one.broken for one in arrays if one.is_impossible), None)


def open_tasks(arrays: Sequence[NeededSet], *, most: int) -> list[Needed] | None:
    """The tasks that these arrays still wait for, one by one; None if they are more than `most`.
    One statement, none without arrays."""
    if not arrays:
        return []
    kinds: dict[int, set[str]] = defaultdict(set)
    for one in arrays:
        kinds[one.job_set].add(one.kind)
    tasks = Job.objects.filter(job_set__in=kinds, state__in=OPEN_JOB_STATES).order_by()
    rows = list(tasks.values_list("pk", "job_set", "state", "started_at")[: most + 1])
    if len(rows) > most:
        return None
    found = [
        Needed(kind, job, state, started_at is not None)
        for job, number, state, started_at in rows
        for kind in sorted(kinds[number or 0])
    ]
    return [one for one in found if not one.is_met]


def begin_obstacle(begin_at: datetime | None, now: datetime) -> Obstacle | None:
    """The obstacle that a begin time in the future is."""
    if begin_at is None or begin_at <= now:
        return None
    return Obstacle(WaitReason.BEGIN_TIME, {"begin": stamp(begin_at)})


def pause_obstacle(
    begin_at: datetime | None, ended: Mapping[str, Any], now: datetime
) -> Obstacle | None:
    """The obstacle that the pause after failing storage is, or the wait of a retry rule; `ended`:
    why the last attempt did."""
    if "pause_s" not in ended or begin_at is None or begin_at <= now:
        return None
    facts = {
        "why": ended["pause_why"],
        "until": begin_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "pause": span_words(ended["pause_s"]),
    }
    by_rule = ended.get("pause_by") == "rule"
    return Obstacle(WaitReason.RETRY_PAUSE if by_rule else WaitReason.STORAGE_PAUSE, facts)


def limit_obstacle(limit: int) -> Obstacle:
    """The obstacle that the throttle of an array is."""
    return Obstacle(WaitReason.ARRAY_LIMIT, {"limit": limit})


def obstacles_of(jobs: Sequence[Job], *, now: datetime) -> dict[int, Obstacle | None]:
    """What keeps each of these held jobs, None if nothing does any more.

    A constant number of queries, and one more for each singleton. Of a throttled set only as many
    tasks are free as there is room for, the lowest indexes first.
    """
    needed: dict[int, list[Needed]] = defaultdict(list)
    group_of = {job.pk: member_of(job) for job in jobs if job.group_name}
    rows = Dependency.objects.filter(job__in=jobs).values_list(
        *("job_id", "kind", "on_id", "on__state", "on__started_at"),
        *("on__owner_id", "on__project_id", "on__group_name"),
    )
    for job_id, kind, on, state, started_at, *member in rows:
        is_older = kind == DependencyKind.AFTERANY and group_of.get(job_id) == tuple(member)
        group = str(member[-1]) if is_older else ""
        needed[job_id].append(Needed(kind, on, state, started_at is not None, group))
    arrays = needed_by(jobs)
    found: dict[int, Obstacle | None] = {}
    for job in jobs:
        namesakes = job.is_singleton and has_namesakes(job.owner_id, job.name, job.pk)
        found[job.pk] = (
            dependency_obstacle(needed[job.pk], arrays.get(job.pk, ()), namesakes=namesakes)
            or pause_obstacle(job.begin_at, job.end_facts, now)
            or begin_obstacle(job.begin_at, now)
        )
    free = [job for job in jobs if found[job.pk] is None and job.job_set_id is not None]
    return found | _throttled(free)


def has_namesakes(owner_id: int, name: str, before: int | None = None) -> bool:
    """Whether any of the owner's jobs of this name, older than `before`, has not ended."""
    open_jobs = Job.objects.filter(owner=owner_id, name=name, state__in=OPEN_JOB_STATES)
    return (open_jobs.filter(pk__lt=before) if before else open_jobs).exists()


def _throttled(tasks: Iterable[Job]) -> dict[int, Obstacle]:
    """Those of the tasks that the throttle of their set leaves no room for."""
    by_set: dict[int, list[Job]] = defaultdict(list)
    for task in tasks:
        by_set[task.job_set_id or 0].append(task)
    if not by_set:
        return {}
    limits = dict(
        JobSet.objects.filter(pk__in=by_set, max_parallel__gt=0).values_list("pk", "max_parallel")
    )
    active = Counter(active_tasks(limits)) if limits else Counter()
    found = {}
    for number, limit in limits.items():
        ordered = sorted(by_set[number], key=lambda task: task.array_index or 0)
        for task in ordered[max(0, limit - active[number]) :]:
            found[task.pk] = limit_obstacle(limit)
    return found


def active_tasks(sets: Iterable[int]) -> dict[int, int]:
    """By set: how many of its tasks wait for room or run."""
    is_over = Q(state__in=(*FINAL_JOB_STATES, JobState.HELD))
    return dict(
        Job.objects.filter(job_set__in=list(sets))
        .exclude(is_over)
        .order_by()
        .values_list("job_set")
        .annotate(Count("pk"))
    )
