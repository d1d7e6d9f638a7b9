"""What a submitted job waits for: the jobs and arrays it names, as the actor may see them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from accounts.models import User
from scheduler.models import Dependency, Job, SetDependency
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.sets import visible_sets
from scheduler.services.holding.arrays import NeededSet, tallies_of
from scheduler.services.holding.obstacles import (
    Needed,
    Obstacle,
    dependency_obstacle,
    has_namesakes,
)
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.order import AFTERCORR, SINGLETON, write_range
from scheduler.spec.order import Dependency as Named
from scheduler.states import DependencyKind

# Rows that an array with dependencies may take: one for each task and job or array it waits for.
MAX_ROWS = 50_000
_FIELD = "depends_on"


@dataclass(frozen=True, slots=True)
class Order:
    """The jobs and arrays waited for, locked, and the obstacle they are now; of an array
    `by_index` what each of its tasks waits for beside."""

    needed: tuple[Needed, ...] = ()
    arrays: tuple[NeededSet, ...] = ()
    is_singleton: bool = False
    obstacle: Obstacle | None = None
    by_index: Mapping[int, tuple[Needed, ...]] = field(default_factory=dict)

    def needed_of(self, index: int | None) -> tuple[Needed, ...]:
        """The single jobs that a task of this index waits for, each once."""
        own = self.by_index.get(index, ()) if index is not None else ()
        return tuple(dict.fromkeys((*self.needed, *own)))

    def obstacle_of(self, index: int) -> Obstacle | None:
        """The obstacle that they are for it."""
        if index not in self.by_index:
            return self.obstacle
        return dependency_obstacle(self.needed_of(index), self.arrays)


def write_waits(ordered: Iterable[tuple[Order, Sequence[Job]]]) -> None:
    """A row for each of these jobs and what its order waits for; a statement for each kind of rows,
    none for none."""
    pairs = [(order, job) for order, jobs in ordered for job in jobs]
    Dependency.objects.bulk_create(
        Dependency(job=job, on_id=one.job, kind=one.kind)
        for order, job in pairs
        for one in order.needed_of(job.array_index)
    )
    SetDependency.objects.bulk_create(
        SetDependency(job=job, on_id=one.job_set, kind=one.kind)
        for order, job in pairs
        for one in order.arrays
    )


def resolve_order(actor: User, spec: JobSpec) -> Order:
    """Read and lock what a spec depends on; inside the transaction of the submit.

    The lock makes sure that an end of one of these jobs, or of a task of these arrays, either is
    seen here or sees the new rows. Raises SpecInvalid; what is foreign looks like what is missing.
    """
    if not spec.depends_on:
        return Order()
    problems = [
        SpecProblem(
            _FIELD,
            f"there is no job {one.job!r} beside it; a name needs a bulk submit, give the number, "
            "or set=4 for all of array 4",
        )
        for one in spec.depends_on
        if isinstance(one.job, str)
    ]
    # Arrays before jobs, as everybody locks them.
    there = _locked_arrays(actor, spec.depends_on, problems)
    arrays = _whole_arrays(spec.depends_on, there)
    by_index = _by_index(spec, there, problems)
    found = _locked_jobs(actor, spec.depends_on, problems)
    rows = (len(spec.array.indexes) if spec.array else 1) * len(spec.depends_on)
    if rows > MAX_ROWS:
        words = f"makes {rows} rows with this array; at most {MAX_ROWS}, so name fewer jobs"
        problems.append(SpecProblem(_FIELD, words))
    if problems:
        raise SpecInvalid(problems)
    # Two submits at once do not overlook each other: `lock_groups` has locked the person.
    is_singleton = any(one.kind == SINGLETON for one in spec.depends_on)
    # A task that is named twice, by its number and by its index, is one.
    needed = tuple(
        dict.fromkeys(
            Needed(one.kind, job.pk, job.state, job.started_at is not None)
            for one in spec.depends_on
            if (job := found.get(one)) is not None
        )
    )
    namesakes = is_singleton and has_namesakes(actor.pk, spec.name)
    obstacle = dependency_obstacle(needed, arrays, namesakes=namesakes)
    if obstacle is not None and obstacle.is_final:
        raise SpecInvalid([SpecProblem(_FIELD, _never(obstacle.facts))])
    return Order(needed, arrays, is_singleton, obstacle, by_index)


def lock_arrays(actor: User, specs: Sequence[JobSpec], also: QuerySet[Job] | None = None) -> None:
    """Lock all arrays that these specs wait for, and those of the jobs in `also`, before any job of
    theirs: one spec after the other would lock jobs of the first before arrays of the second. No
    statement where there are none."""
    numbers = {one.job_set for spec in specs for one in spec.depends_on if one.index is None} - {0}
    if also is not None:
        tasks = also.filter(job_set__isnull=False).order_by()
        numbers |= set(tasks.values_list("job_set_id", flat=True).distinct())
    if numbers:
        rows = visible_sets(actor).filter(pk__in=numbers).select_for_update(of=("self",))
        list(rows.order_by("pk").values_list("pk"))


def lock_jobs(actor: User, specs: Sequence[JobSpec], also: QuerySet[Job] | None = None) -> None:
    """Lock all single jobs that these specs wait for, and those in `also`, in the order of their
    ids: two that each wait for what the other has locked already would stand opposite each other.
    No statement where that is one job, or none, and nothing else."""
    named = {one for spec in specs for one in spec.depends_on if isinstance(one.job, int)}
    named = {one for one in named if one.job or one.index is not None}
    if not named or (also is None and len(named) == 1):
        return
    asked = _of_these(named) if also is None else _of_these(named) | Q(pk__in=also.values("pk"))
    locked = visible_jobs(actor).filter(asked).select_for_update(of=("self",))
    list(locked.order_by("pk").values_list("pk"))


def _of_these(named: Iterable[Named]) -> Q:
    """The single jobs among them; tasks are named by their array and index as well."""
    wanted = list(named)
    asked = Q(pk__in={one.job for one in wanted if isinstance(one.job, int) and one.job})
    for one in wanted:
        if one.index is not None:
            asked |= Q(job_set=one.job_set, array_index=one.index)
    return asked


def _locked_arrays(actor: User, named: Sequence[Named], problems: list[SpecProblem]) -> set[int]:
    """The whole arrays among `named`."""
    numbers = {one.job_set for one in named if one.job_set and one.index is None}
    if not numbers:
        return set()
    rows = visible_sets(actor).filter(pk__in=numbers).select_for_update(of=("self",))
    there = set(rows.order_by("pk").values_list("pk", flat=True))
    problems += [
        SpecProblem(_FIELD, f"there is no array {number} for you; check the number")
        for number in sorted(numbers - there)
    ]
    return there


def _whole_arrays(named: Sequence[Named], there: Collection[int]) -> tuple[NeededSet, ...]:
    """How far those are of which all tasks are waited for."""
    wanted = [one for one in named if one.index is None and one.kind != AFTERCORR]
    tallies = tallies_of({one.job_set for one in wanted} & set(there))
    return tuple(
        NeededSet(one.kind, one.job_set, tallies[one.job_set])
        for one in wanted
        if one.job_set in tallies
    )


def _by_index(
    spec: JobSpec, there: Collection[int], problems: list[SpecProblem]
) -> dict[int, tuple[Needed, ...]]:
    """By index the tasks that `aftercorr` names; who ends one of them locks its array first."""
    named = [one for one in spec.depends_on if one.kind == AFTERCORR]
    if not named or spec.array is None:
        return {}
    problems += [
        SpecProblem(_FIELD, f"aftercorr names an array, and job {one.job} is none; use afterok")
        for one in named
        if not one.job_set and isinstance(one.job, int)
    ]
    sets = {one.job_set for one in named} & set(there)
    tasks = Job.objects.filter(job_set__in=sets).order_by("job_set_id", "array_index")
    by_set: dict[int, dict[int, Needed]] = {number: {} for number in sorted(sets)}
    rows = tasks.values_list("job_set_id", "array_index", "pk", "state", "started_at")
    for number, index, pk, state, started_at in rows:
        one = Needed(DependencyKind.AFTEROK, pk, state, started_at is not None)
        by_set[number or 0][index or 0] = one
    for number, its in by_set.items():
        if words := _unfit(number, its, spec.array.indexes):
            problems.append(SpecProblem(_FIELD, words))
    return {
        index: tuple(its[index] for its in by_set.values() if index in its)
        for index in spec.array.indexes
    }


def _unfit(number: int, its: Mapping[int, Needed], indexes: Sequence[int]) -> str:
    """What is wrong with waiting task for task for these; empty for nothing."""
    missing = [index for index in indexes if index not in its]
    if missing:
        return (
            f"waits task for task, and array {number} has no task {_first(missing)}; it has "
            f"{write_range(its)}: give this array indexes of these"
        )
    never = [index for index in indexes if its[index].is_impossible]
    if not never:
        return ""
    left = write_range(set(indexes) - set(never))
    remedy = f"leave them out: array: {left}" if left else "name another array"
    return f"waits task for task, and of array {number} task {_first(never)} has failed; {remedy}"


def _first(indexes: Sequence[int]) -> str:
    more = f" and {len(indexes) - 1} more" if len(indexes) > 1 else ""
    return f"{indexes[0]}{more}"


def _locked_jobs(
    actor: User, named: Sequence[Named], problems: list[SpecProblem]
) -> dict[Named, Job]:
    """The single jobs among `named`."""
    numbers = {one.job for one in named if isinstance(one.job, int) and one.job}
    tasks = [one for one in named if one.index is not None]
    locked = visible_jobs(actor).filter(_of_these(named)).select_for_update(of=("self",))
    jobs = list(locked.order_by("pk"))
    by_number = {job.pk: job for job in jobs}
    by_index = {(job.job_set_id, job.array_index): job for job in jobs}
    problems += [
        SpecProblem(_FIELD, f"there is no job {number} for you; check the number")
        for number in sorted(numbers - by_number.keys())
    ]
    problems += [
        SpecProblem(
            _FIELD, f"there is no task {one.index} of array {one.job_set} for you; check both"
        )
        for one in tasks
        if (one.job_set, one.index) not in by_index
    ]
    found = {
        one: by_number.get(one.job) if one.index is None else by_index.get((one.job_set, one.index))
        for one in named
        if isinstance(one.job, int)
    }
    return {one: job for one, job in found.items() if job is not None}


def _never(facts: Mapping[str, object]) -> str:
    """Why the wait can never be met."""
    if "set" in facts:
        return "waits for {awaited}, and {found}; name another array, or afterany".format_map(facts)
    words = "waits for job {job} {wanted}, which has {state} already; name another job"
    return words.format_map(facts)
