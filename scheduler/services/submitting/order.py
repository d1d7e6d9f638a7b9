"""What a submitted job waits for: the jobs it names, as the actor may see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accounts.models import User
from scheduler.models import Dependency, Job
from scheduler.selectors.jobs import visible_jobs
from scheduler.services.holding.obstacles import (
    Needed,
    Obstacle,
    dependency_obstacle,
    has_namesakes,
)
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.order import SINGLETON

# Rows that an array with dependencies may take: one for each task and job it waits for.
MAX_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Order:
    """The jobs waited for, locked, and the obstacle they are now."""

    needed: tuple[Needed, ...] = ()
    is_singleton: bool = False
    obstacle: Obstacle | None = None

    def rows(self, jobs: Sequence[Job]) -> list[Dependency]:
        """A row for each of these jobs and what it waits for."""
        return [
            Dependency(job=job, on_id=one.job, kind=one.kind) for job in jobs for one in self.needed
        ]


def resolve_order(actor: User, spec: JobSpec) -> Order:
    """Read and lock what a spec depends on; inside the transaction of the submit.

    The lock makes sure that an end of one of these jobs either is seen here or sees the new rows.
    Raises SpecInvalid; a foreign job looks like a missing one.
    """
    if not spec.depends_on:
        return Order()
    problems = [
        SpecProblem(
            "depends_on",
            f"there is no job {one.job!r} beside it; a name needs a bulk submit, give the number",
        )
        for one in spec.depends_on
        if isinstance(one.job, str)
    ]
    numbers = {one.job for one in spec.depends_on if isinstance(one.job, int) and one.job}
    locked = visible_jobs(actor).filter(pk__in=numbers).select_for_update(of=("self",))
    found = {job.pk: job for job in locked.order_by("pk")}
    problems += [
        SpecProblem("depends_on", f"there is no job {number} for you; check the number")
        for number in sorted(numbers - found.keys())
    ]
    rows = (len(spec.array.indexes) if spec.array else 1) * len(spec.depends_on)
    if rows > MAX_ROWS:
        words = f"makes {rows} rows with this array; at most {MAX_ROWS}, so name fewer jobs"
        problems.append(SpecProblem("depends_on", words))
    if problems:
        raise SpecInvalid(problems)
    is_singleton = any(one.kind == SINGLETON for one in spec.depends_on)
    if is_singleton:
        # Two submits at once must not overlook each other.
        User.objects.select_for_update().filter(pk=actor.pk).first()
    needed = tuple(
        Needed(one.kind, job.pk, job.state, job.started_at is not None)
        for one in spec.depends_on
        if (job := found.get(one.job if isinstance(one.job, int) else 0)) is not None
    )
    namesakes = is_singleton and has_namesakes(actor.pk, spec.name)
    obstacle = dependency_obstacle(needed, namesakes=namesakes)
    if obstacle is not None and obstacle.is_final:
        words = "waits for job {job} {wanted}, which has {state} already; name another job"
        raise SpecInvalid([SpecProblem("depends_on", words.format_map(obstacle.facts))])
    return Order(needed, is_singleton, obstacle)
