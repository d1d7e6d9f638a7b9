"""What stands around a table: saved views, teams to share them with, topics to follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, F, QuerySet, Value, When

from accounts.held import picture_of
from accounts.models import Team, User
from accounts.permissions import is_operator
from accounts.selectors import visible_projects
from accounts.statements import AskedOnceFor
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.saved import MOST_SHOWN, visible_views
from scheduler.selectors.tables.together import Part, Small, as_one, by_kind
from scheduler.selectors.waits.deciding import leases

# A socket carries at most fifty topics; who sees more projects than this listens to the pools.
MOST_TOPICS = 40
_WHOSE = Case(
    When(person=F("viewer_"), is_default=True, then=Value("default")),
    When(person=F("viewer_"), then=Value("own")),
    default=Value("shared"),
)


@dataclass(frozen=True, slots=True)
class View:
    """A saved view: the viewer's own, or shared with the team `team`."""

    pk: int
    name: str
    query: str
    is_mine: bool
    is_default: bool
    team: str


@dataclass(frozen=True, slots=True)
class Around:
    """Views by name, the viewer's teams as (short, shown) names; of the table of jobs the topics
    and the end of the scheduler's lease, for `decided_by`. `left_out`: so many shared views more
    than are shown."""

    views: Sequence[View]
    teams: Sequence[tuple[str, str]]
    topics: Sequence[str]
    lease_until: datetime | None = None
    left_out: int = 0

    @property
    def default(self) -> View | None:
        """The one that the table opens with; None without a choice."""
        return next((view for view in self.views if view.is_default), None)


def _around(asked: tuple[User, str]) -> QuerySet[Any, tuple[Any, ...]]:
    viewer, table = asked
    rows = visible_views(viewer, table).annotate(viewer_=Value(viewer.pk))
    parts = [
        Part("view", rows, word="name", more="query", last=_WHOSE),
        Part("shared", rows.filter(team__isnull=False), word="team__slug"),
        Part("team", Team.objects.filter(memberships__user=viewer), word="slug", more="name"),
    ]
    if table == "jobs":
        parts.append(Part("lease", leases(), number="token", at="expires_at"))
        parts.append(
            Part("pool", visible_pools(viewer).order_by("name")[:MOST_TOPICS], word="name")
        )
        if not is_operator(viewer):
            seen = visible_projects(viewer).order_by("pk")[: MOST_TOPICS + 1]
            parts.append(Part("project", seen))
    return as_one(*parts)


_AROUND: AskedOnceFor[tuple[User, str]] = AskedOnceFor(_around)


def around_table(viewer: User, table: str) -> Around:
    """One statement; topics only for the table of jobs."""
    found = by_kind(_AROUND.read((viewer, table), picture_of(viewer, table)))
    topics = [] if table != "jobs" else _topics(viewer, found["project"], found["pool"])
    teams = {one.number: one.word for one in found["shared"]}
    views = [_view(one, teams) for one in sorted(found["view"], key=lambda one: one[:2])]
    # One's own come first where not all are shown.
    shown = sorted(views, key=lambda view: (not view.is_mine, view.name, view.pk))[:MOST_SHOWN]
    return Around(
        sorted(shown, key=lambda view: (view.name, view.pk)),
        sorted(((one.word, one.more) for one in found["team"]), key=lambda one: one[1]),
        topics,
        next((one.at for one in found["lease"]), None),
        len(views) - len(shown),
    )


def _view(one: Small, teams: dict[int, str]) -> View:
    is_mine = one.last in ("default", "own")
    is_default = one.last == "default"
    return View(one.number, one.word, one.more, is_mine, is_default, teams.get(one.number, ""))


def _topics(viewer: User, projects: list[Small], pools: list[Small]) -> list[str]:
    if not is_operator(viewer) and len(projects) <= MOST_TOPICS:
        return [f"project:{one.number}" for one in sorted(projects)]
    return [f"queue:{one.word}" for one in sorted(pools, key=lambda one: one.word)]
