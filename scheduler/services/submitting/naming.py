"""Jobs of one bulk that wait for each other by name: an order to submit them in, or the circle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from scheduler.models import Job
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.order import Dependency

_SHOWN = 20


def in_order(specs: Sequence[JobSpec]) -> list[int]:
    """The rows of `specs`, each after those it names; otherwise as they were sent.

    Where groups are named, of which the last one sent counts, each comes as soon as those it waits
    for are there. Raises SpecInvalid: for a name that is none or several of the bulk, and for a
    circle, which is printed. Numbers name jobs of before, so they close no circle.
    """
    counts = Counter(spec.name for spec in specs)
    row_of = {spec.name: row for row, spec in enumerate(specs)}
    problems = []
    graph: dict[int, list[int]] = {}
    for row, spec in enumerate(specs):
        names = [one.job for one in spec.depends_on if isinstance(one.job, str)]
        graph[row] = [row_of[name] for name in names if counts[name] == 1]
        for name in names:
            if counts[name] != 1:
                found = "none" if not counts[name] else str(counts[name])
                words = f"names {name!r}, and {found} of the jobs sent is called so; name one"
                problems.append(SpecProblem(f"jobs[{row}].depends_on", words))
    if problems:
        raise SpecInvalid(problems)
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        # The sorter lists who comes first; told is who waits for whom.
        circle = [specs[row].name for row in reversed(error.args[1])]
        shown = circle if len(circle) <= _SHOWN else [*circle[: _SHOWN - 1], "…", circle[-1]]
        words = f"wait for each other in a circle: {' -> '.join(shown)}; remove one of these"
        raise SpecInvalid([SpecProblem(f"jobs[{error.args[1][0]}].depends_on", words)]) from None
    if any(spec.group for spec in specs):
        return _as_sent(graph)
    rows: list[int] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        rows += ready
        sorter.done(*ready)
    return rows


def _as_sent(graph: Mapping[int, Sequence[int]]) -> list[int]:
    """Each row in its turn, and just before it what it waits for."""
    rows: dict[int, None] = {}

    def visit(row: int) -> None:
        if row not in rows:
            for other in graph[row]:
                visit(other)
            rows[row] = None

    for row in sorted(graph):
        visit(row)
    return list(rows)


def with_numbers(spec: JobSpec, job_of: Mapping[str, Job]) -> JobSpec:
    """The spec with the numbers its names have got; of an array, whose first task `job_of` has, its
    name stands for all tasks."""
    if not any(isinstance(one.job, str) for one in spec.depends_on):
        return spec
    resolved = tuple(
        _numbered(one, job_of[one.job]) if isinstance(one.job, str) else one
        for one in spec.depends_on
    )
    return spec.model_copy(update={"depends_on": resolved})


def _numbered(one: Dependency, job: Job) -> Dependency:
    if job.job_set_id is None:
        return replace(one, job=job.pk)
    return replace(one, job=0, job_set=job.job_set_id)
