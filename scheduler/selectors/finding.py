"""Things by name, for a viewer: jobs, nodes, teams and projects in one statement."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Case, IntegerField, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Concat

from accounts.models import User
from accounts.selectors import visible_projects
from scheduler.models import Job
from scheduler.models.jobs import PAUSE_IS_OVER
from scheduler.selectors.cluster import visible_nodes
from scheduler.selectors.jobs import MAX_PK, visible_jobs
from scheduler.selectors.tables.together import Part, together

# Names lie under no index that finds a part of them, so only the newest jobs are looked through;
# the filter of the job list looks through all.
NEWEST_JOBS = 20_000
MOST_OF_A_KIND = 5
_TEXT = TextField()
_PATH = Concat("team__slug", Value("/"), "slug", output_field=_TEXT)
_PROJECT_PATH = Concat("project__team__slug", Value("/"), "project__slug", output_field=_TEXT)
_END = Case(When(PAUSE_IS_OVER, then=Value("")), default="end_reason", output_field=_TEXT)
_STATE = Concat("state", Value(" "), _END, output_field=_TEXT)


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job by its number; `project` as paths are written."""

    pk: int
    name: str
    project: str
    state: str
    end_reason: str


@dataclass(frozen=True, slots=True)
class FoundProject:
    """A project, and the team it belongs to: short and shown names of both."""

    team: str
    slug: str
    name: str
    team_name: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What carries the text in its name, best first; at most five of a kind. Nodes: name, pool."""

    jobs: tuple[FoundJob, ...] = ()
    nodes: tuple[tuple[str, str], ...] = ()
    projects: tuple[FoundProject, ...] = ()


def find_by_name(viewer: User, text: str) -> Findings:
    """Jobs by number or name, nodes and projects by name; `#12` finds job 12.

    Without text: the viewer's own latest jobs.
    """
    words = text.strip()
    if "\x00" in words:  # no database could hold it
        return Findings()
    jobs = visible_jobs(viewer)
    if not words:
        return _found(jobs.filter(owner=viewer).order_by("-pk")[:3])
    number = words.removeprefix("#")
    if number.isascii() and number.isdigit():
        return _found(jobs.filter(pk=int(number))) if int(number) <= MAX_PK else Findings()
    newest = Subquery(Job.objects.order_by("-pk").values("pk")[:1], output_field=IntegerField())
    jobs = jobs.filter(pk__gt=newest - NEWEST_JOBS, name__icontains=words)
    team, _, slug = words.rpartition("/")
    projects = visible_projects(viewer).filter(is_archived=False)
    if team:
        projects = projects.filter(team__slug__iexact=team, slug__istartswith=slug)
    else:
        by_team = Q(team__slug__icontains=words) | Q(team__name__icontains=words)
        projects = projects.filter(Q(slug__icontains=words) | Q(name__icontains=words) | by_team)
    nodes = visible_nodes(viewer).filter(name__icontains=words).order_by("name")
    return _found(
        jobs.order_by("-pk")[:MOST_OF_A_KIND],
        Part("node", nodes[:MOST_OF_A_KIND], word="name", more="pool__name"),
        Part(
            "project",
            projects.order_by("team__slug", "slug")[:MOST_OF_A_KIND],
            word=_PATH,
            more="name",
            last="team__name",
        ),
    )


def _found(jobs: QuerySet[Job], *others: Part) -> Findings:
    part = Part("job", jobs, word="name", more=_PROJECT_PATH, last=_STATE)
    found = {"node": [], "project": [], **together(part, *others)}
    return Findings(
        tuple(
            FoundJob(one.number, one.word, one.more, state, end_reason)
            for one in sorted(found["job"], reverse=True)
            for state, _, end_reason in [one.last.partition(" ")]
        ),
        tuple(sorted((one.word, one.more) for one in found["node"])),
        tuple(
            FoundProject(team, slug, one.more, one.last)
            for one in sorted(found["project"], key=lambda one: one.word.split("/"))
            for team, _, slug in [one.word.partition("/")]
        ),
    )
