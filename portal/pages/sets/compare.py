"""Up to eight jobs side by side: how they ended, what they cost, what their GPUs did, where their
specs differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from portal.forms.filters import unknown_parameters
from portal.forms.jobs import JobForm
from portal.forms.labels import as_words, labels_of
from portal.pages.access import choice, page, viewer_of
from portal.pages.job_rows import JobRow, job_rows
from portal.reports.overlay import run_charts
from portal.templatetags import measures
from portal.templatetags.portal import money
from scheduler.models import Job
from scheduler.selectors.jobs import (
    MAX_PK,
    may_read_inside,
    one_of_each_set,
    own_jobs,
    shown_spec,
    visible_jobs,
)
from scheduler.selectors.machines.measured import measured_means
from scheduler.selectors.machines.overlaid import run_series
from scheduler.selectors.telemetry import FULL
from scheduler.spec.lines import in_one_line

MOST = 8
# With fewer than two chosen, so many others of the project, or of one's own, are offered.
OFFERED = 6
NOTHING = "–"
CLOSED = "not for your role"
PARAMETERS = ("id", "rows")
_LONG = ("script", "command", "env")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing of all jobs, in the order of the columns."""

    title: str
    values: tuple[str, ...]
    is_code: bool = False

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


@page("GET")
def compare(request: HttpRequest) -> HttpResponseBase:
    """`?id=12&id=15` or `?id=12,15`; `rows=differing` leaves out what is the same."""
    viewer, now = viewer_of(request), timezone.now()
    wanted, problems = _numbers(request.GET.getlist("id"))
    found = visible_jobs(viewer).filter(pk__in=wanted).in_bulk() if wanted else {}
    missing = [str(number) for number in wanted if number not in found]
    if missing:
        problems.append(f"id: there is no job {', '.join(missing)} for you; it is left out.")
    jobs = [found[number] for number in wanted if number in found]
    rows = job_rows(viewer, jobs, now=now)
    lines = [*_facts(rows, now), *_measured(viewer, jobs), *_specs(viewer, jobs)] if jobs else []
    names = {job.pk: job.name for job in jobs}
    only = choice(request, "rows", ("differing",)) == "differing"
    context = {
        "rows": rows,
        "lines": [line for line in lines if line.differs] if only else lines,
        "only": only,
        "charts": run_charts(run_series(viewer, jobs, now=now), names),
        "most_devices": FULL,
        "offered": _offered(viewer, jobs),
        "asked": ", ".join(str(job.pk) for job in jobs),
        "most": MOST,
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
    }
    return render(request, "sets/compare.html", context)


def _offered(viewer: User, jobs: list[Job]) -> list[tuple[Job, str]]:
    """The newest that could stand beside the only one, each with the numbers of both."""
    if len(jobs) > 1:
        return []
    near = visible_jobs(viewer).filter(project=jobs[0].project_id) if jobs else own_jobs(viewer)
    others = one_of_each_set(near).exclude(pk__in=[job.pk for job in jobs]).order_by("-pk")
    return [(job, ",".join(str(one.pk) for one in (*jobs, job))) for job in others[:OFFERED]]


def _numbers(texts: Iterable[str]) -> tuple[list[int], list[str]]:
    """The numbers, each once, and what was wrong with the rest."""
    numbers: dict[int, None] = {}
    wrong = []
    for word in " ".join(texts).replace(",", " ").split():
        plain = word.removeprefix("#")
        if plain.isascii() and plain.isdigit() and len(plain) < 20 and int(plain) <= MAX_PK:
            numbers[int(plain)] = None
        else:
            wrong.append(word[:30])
    problems = [f"id: {', '.join(wrong[:5])} is no job number; it is left out."] if wrong else []
    if len(numbers) > MOST:
        problems.append(f"id: at most {MOST} jobs are compared; these are the first.")
    return list(numbers)[:MOST], problems


def _facts(rows: list[JobRow], now: datetime) -> Iterator[Line]:
    def line(title: str, values: Iterable[object]) -> Line:
        return Line(
            title, tuple(str(value) if value not in (None, "") else NOTHING for value in values)
        )

    jobs = [row.job for row in rows]
    yield line("How it stands", (row.sentence or str(row.job.state) for row in rows))
    yield line("Exit code", (job.exit_code for job in jobs))
    waits = ((job.started_at or job.ended_at or now) - job.submitted_at for job in jobs)
    yield line("Waited", (_long(wait) for wait in waits))
    ran = (row.elapsed for row in rows)
    yield line("Ran", ("" if one is None else measures.run_time(one) for one in ran))
    yield line("GPUs", (job.gpus for job in jobs))
    yield line(
        "Cost so far",
        (money(row.cost) if row.cost is not None else CLOSED for row in rows),
    )


def _long(span: timedelta | None) -> str:
    return measures.duration(span) if span is not None else ""


def _measured(viewer: User, jobs: list[Job]) -> Iterator[Line]:
    means = measured_means(viewer, jobs)
    if not means:
        return
    shown = [means.get(job.pk) for job in jobs]
    yield Line("GPU use, mean", tuple(_percent(m.use) if m else NOTHING for m in shown))
    most = (f"{m.most_memory_mib / 1024:.1f} GiB" if m else NOTHING for m in shown)
    yield Line("GPU memory, most", tuple(most))
    yield Line("Power, mean", tuple(f"{m.power_watts:.0f} W" if m else NOTHING for m in shown))


def _percent(use: float | None) -> str:
    return "unknown" if use is None else f"{use:.0f} %"


def _specs(viewer: User, jobs: list[Job]) -> Iterator[Line]:
    """Every field that any of the specs says, what runs last; in the others with its default."""
    specs = [shown_spec(viewer, job) if may_read_inside(viewer, job) else None for job in jobs]
    said = {field for spec in specs if spec for field in spec.readable()}
    flat = [dict(_flat(spec.readable(also=said))) if spec else None for spec in specs]
    labels = labels_of(JobForm)
    said_by_any = dict.fromkeys(name for each in flat if each for name in each)
    # What is long stands below what is read at a glance.
    names = sorted(said_by_any, key=lambda name: name.partition(".")[0] in _LONG)
    for name in names:
        if name not in ("apiVersion", "kind"):
            values = (CLOSED if each is None else each.get(name, NOTHING) for each in flat)
            yield Line(_title(name, labels), tuple(values), is_code=True)


def _title(name: str, labels: Mapping[str, str]) -> str:
    """`GPUs per node`, as the form says it; what lies in a field keeps its name: `env.EPOCH_S`."""
    label = labels.get(name, "")
    return name if "." in name else label if label and ":" not in label else as_words(name)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        # A mapping among them is a retry rule, or a dependency by its name.
        said = (in_one_line(one) if isinstance(one, dict) else str(one) for one in value)
        yield name, " ".join(said) or NOTHING
    elif value not in (None, ""):
        yield name, str(value)
