"""What a person narrows pages to: one team with those below it, or one project."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from accounts.errors import NotFound
from accounts.models import Project, Team, User
from accounts.permissions import projects_visible_to, teams_visible_to
from accounts.selectors import get_visible_project, get_visible_team
from accounts.trees import teams_below

# Of more teams than this the page that lists them asks for a few letters.
MOST_OFFERED = 200


@dataclass(frozen=True, slots=True)
class Scope:
    """`text` is how filters write it; empty: everything. `name`: the same without its key."""

    text: str = ""
    teams: frozenset[int] = frozenset()
    project_id: int | None = None
    team_id: int | None = None

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def name(self) -> str:
        """As paths are written: `vision`, `vision/digits`."""
        return name_of(self.text)

    def part_of(self, path: str = "") -> Q:
        """The condition on rows whose project is behind `path` ("" for projects themselves)."""
        lead = f"{path}__" if path else ""
        if self.project_id is not None:
            return Q(**{f"{lead}pk": self.project_id})
        return Q(**{f"{lead}team__in": self.teams}) if self else Q()

    def covers(self, project: Project) -> bool:
        """Whether this project is within it."""
        if self.project_id is not None:
            return project.pk == self.project_id
        return not self or project.team_id in self.teams


EVERYTHING = Scope()


def name_of(text: str) -> str:
    """What stands behind the key of a scope's text."""
    return text.partition(":")[2]


def scope_of(viewer: User, text: str) -> Scope:
    """`team:<slug>` or `project:<team>/<slug>`; raises NotFound for what is not there for them."""
    kind, _, name = text.partition(":")
    if kind == "team":
        team = get_visible_team(viewer, name)
        return Scope(text, frozenset({team.pk} | teams_below({team.pk})), None, team.pk)
    if kind == "project":
        project = get_visible_project(viewer, name)
        return Scope(text, frozenset({project.team_id}), project.pk, project.team_id)
    raise NotFound("Write a scope as team:NAME or project:TEAM/NAME.")


@dataclass(frozen=True, slots=True)
class Offer:
    """A team that may be chosen, and those of its projects that may."""

    team: Team
    projects: tuple[Project, ...]


def offered_scopes(viewer: User, text: str = "") -> tuple[list[Offer], bool]:
    """The viewer's teams and projects by name, those with `text` in theirs, and whether there are
    more of either than `MOST_OFFERED`; two queries.
    """
    teams = teams_visible_to(viewer).order_by("name", "pk")
    projects = projects_visible_to(viewer).filter(is_archived=False).order_by("name", "pk")
    if text:
        projects = projects.filter(_named(text) | _named(text, "team__"))
        teams = teams.filter(_named(text) | Q(pk__in=projects.order_by().values("team")))
    some_teams, some_projects = list(teams[: MOST_OFFERED + 1]), list(projects[: MOST_OFFERED + 1])
    is_cut = max(len(some_teams), len(some_projects)) > MOST_OFFERED
    return _grouped(some_teams[:MOST_OFFERED], some_projects[:MOST_OFFERED]), is_cut


def _named(text: str, lead: str = "") -> Q:
    return Q(**{f"{lead}name__icontains": text}) | Q(**{f"{lead}slug__icontains": text})


def _grouped(teams: Iterable[Team], projects: Iterable[Project]) -> list[Offer]:
    by_team: dict[int, list[Project]] = {}
    for project in projects:
        by_team.setdefault(project.team_id, []).append(project)
    return [Offer(team, tuple(by_team.get(team.pk, ()))) for team in teams]
