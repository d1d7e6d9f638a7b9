"""Things by name, for a viewer: jobs, nodes, teams and projects in three queries."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import IntegerField, Q, Subquery

from accounts.models import Project, User
from accounts.selectors import visible_projects
from scheduler.models import Job, Node
from scheduler.selectors.cluster import visible_nodes
from scheduler.selectors.jobs import MAX_PK, visible_jobs

# Names lie under no index that finds a part of them, so only the newest jobs are looked through;
# the filter of the job list looks through all.
NEWEST_JOBS = 20_000
MOST_OF_A_KIND = 5


@dataclass(frozen=True, slots=True)
class Findings:
    """What carries the text in its name, best first; at most five of a kind."""

    jobs: tuple[Job, ...] = ()
    nodes: tuple[Node, ...] = ()
    projects: tuple[Project, ...] = ()


def find_by_name(viewer: User, text: str) -> Findings:
    """Jobs by number or name, nodes and projects by name; `#12` finds job 12.

    Without text: the viewer's own latest jobs.
    """
    words = text.strip()
    if "\x00" in words:  # no database could hold it
        return Findings()
    if not words:
        return Findings(tuple(visible_jobs(viewer).filter(owner=viewer).order_by("-pk")[:3]))
    number = words.removeprefix("#")
    jobs = visible_jobs(viewer)
    if number.isascii() and number.isdigit():
        return Findings(tuple(jobs.filter(pk=int(number))) if int(number) <= MAX_PK else ())
    newest = Subquery(Job.objects.order_by("-pk").values("pk")[:1], output_field=IntegerField())
    jobs = jobs.filter(pk__gt=newest - NEWEST_JOBS, name__icontains=words)
    team, _, slug = words.rpartition("/")
    projects = visible_projects(viewer).filter(is_archived=False).select_related("team")
    if team:
        projects = projects.filter(team__slug__iexact=team, slug__istartswith=slug)
    else:
        by_team = Q(team__slug__icontains=words) | Q(team__name__icontains=words)
        projects = projects.filter(Q(slug__icontains=words) | Q(name__icontains=words) | by_team)
    return Findings(
        tuple(jobs.order_by("-pk")[:MOST_OF_A_KIND]),
        tuple(
            visible_nodes(viewer).filter(name__icontains=words).order_by("name")[:MOST_OF_A_KIND]
        ),
        tuple(projects.order_by("team__slug", "slug")[:MOST_OF_A_KIND]),
    )
