"""What a list of jobs is narrowed to, and whether what it names is there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast

from accounts.errors import NotFound
from accounts.models import Project, User
from accounts.permissions import can, projects_visible_to, teams_visible_to
from scheduler.models import Attempt, Job, JobSchedule, JobScheduleRun, Pool
from scheduler.selectors.jobs import MAX_PK, visible_jobs
from scheduler.selectors.ordered.labels import LabelText


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a list is narrowed to; empty means no limit. `owner` may be "me".

    `gpus` are the least and the most in all; a `label` is a key and its value, None for any;
    `finish_until`: not ended, to be finished by then; `warnings`: the least and the most lines of
    the last attempt's logs that say warn, of jobs whose logs the viewer may read.
    """

    states: tuple[str, ...] = ()
    team: str = ""
    project: str = ""
    owner: str = ""
    pool: str = ""
    text: str = ""
    job_set: int = 0
    schedule: int = 0
    submitted_since: datetime | None = None
    ended_since: datetime | None = None
    finish_until: datetime | None = None
    gpus: tuple[int, int] | None = None
    gpu_model: str = ""
    label: tuple[str, str | None] | None = None
    group: str = ""
    warnings: tuple[int, int] | None = None


def check_known(viewer: User, wanted: JobFilter, field: str = "") -> None:
    """Raises NotFound for a team, project, pool, set or schedule that is missing or foreign, alike,
    naming `field` or its own one. People are not looked up: who has no jobs here has none."""
    sees_all = can(viewer, "see_jobs", None)
    projects = Project.objects.all() if sees_all else projects_visible_to(viewer)
    team, _, slug = wanted.project.rpartition("/")
    within = {"team__slug": team} if team else {}
    asked: list[tuple[str, object, list[QuerySet[Any]]]] = [
        (
            "team",
            wanted.team,
            [
                projects.filter(team__slug=wanted.team),
                teams_visible_to(viewer).filter(slug=wanted.team),
            ],
        ),
        ("project", wanted.project, [projects.filter(slug=slug, **within)]),
        ("pool", wanted.pool, [Pool.objects.filter(name=wanted.pool)]),
        (
            "schedule",
            wanted.schedule,
            [JobSchedule.objects.filter(pk=wanted.schedule, project__in=projects)],
        ),
        ("set", wanted.job_set, [visible_jobs(viewer).filter(job_set=wanted.job_set)]),
    ]
    for name, value, places in asked:
        if value and not any(rows.exists() for rows in places):
            raise NotFound(f"There is no such {name} for you.", field=field or name)


def filter_jobs(jobs: QuerySet[Job], wanted: JobFilter, viewer: User) -> QuerySet[Job]:
    """Narrow a list; unknown names simply match nothing."""
    if wanted.states:
        jobs = jobs.filter(state__in=wanted.states)
    if wanted.team:
        jobs = jobs.filter(project__team__slug=wanted.team)
    if wanted.project:
        team, _, slug = wanted.project.rpartition("/")
        jobs = jobs.filter(project__slug=slug)
        jobs = jobs.filter(project__team__slug=team) if team else jobs
    if wanted.owner == "me":
        jobs = jobs.filter(owner=viewer)
    elif wanted.owner:
        jobs = jobs.filter(owner__username=wanted.owner)
    if wanted.pool:
        jobs = jobs.filter(pool__name=wanted.pool)
    if wanted.job_set:
        jobs = jobs.filter(job_set=wanted.job_set)
    if wanted.schedule:
        jobs = jobs.filter(_of_schedule(wanted.schedule))
    since = {"submitted_at__gte": wanted.submitted_since, "ended_at__gte": wanted.ended_since}
    jobs = jobs.filter(**{name: at for name, at in since.items() if at})
    if wanted.finish_until:
        jobs = jobs.filter(finish_by__lte=wanted.finish_until, ended_at__isnull=True)
    if wanted.group:
        jobs = jobs.filter(group_name=wanted.group)
    if wanted.warnings is not None:
        read = projects_visible_to(viewer, "read_log").values("pk")
        read = read if viewer.reads_logs else read.none()
        jobs = jobs.filter(_warned(*wanted.warnings), project__in=read)
    jobs = _of_size(jobs, wanted)
    if wanted.text:
        match = Q(name__icontains=wanted.text)
        digits = wanted.text.lstrip("#")
        if digits.isascii() and digits.isdigit() and len(digits) <= len(str(MAX_PK)):
            match |= Q(pk=min(int(digits), MAX_PK))
        jobs = jobs.filter(match)
    return jobs


def _of_schedule(number: int) -> Q:
    """What came of its times: a run names the first task of an array."""
    runs = JobScheduleRun.objects.filter(schedule=number)
    sets = runs.filter(job__job_set__isnull=False).values("job__job_set")
    return Q(pk__in=runs.filter(job__isnull=False).values("job")) | Q(job_set__in=sets)


def _warned(least: int, most: int) -> Exists:
    """Jobs of whose last attempt so many were counted."""
    later = Attempt.objects.filter(job=OuterRef("job"), number__gt=OuterRef("number")).order_by()
    mine = Attempt.objects.filter(job=OuterRef("pk"), warnings__gte=least, warnings__lte=most)
    return Exists(mine.filter(~Exists(later)).order_by())


def _of_size(jobs: QuerySet[Job], wanted: JobFilter) -> QuerySet[Job]:
    """By what was asked for: how many GPUs, of which model, under which label."""
    if wanted.gpus is not None:
        in_all = jobs.alias(gpus_in_all=F("nodes") * F("gpus_per_node"))
        jobs = in_all.filter(gpus_in_all__range=wanted.gpus)
    if wanted.gpu_model:
        word = wanted.gpu_model
        # One model, or one of several in an order.
        jobs = jobs.alias(models=Cast("gpu_models", TextField())).filter(
            Q(gpu_model__icontains=word) | Q(models__icontains=word)
        )
    if wanted.label is not None:
        key, value = wanted.label
        said = jobs.alias(label_said=LabelText(F("spec"), Value("labels"), Value(key)))
        is_there = Q(label_said__isnull=False) if value is None else Q(label_said=value)
        jobs = said.filter(is_there)
    return jobs
