"""Whose figures a viewer gets, and by which names people stand in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from accounts.errors import NotFound
from accounts.models import Team, User
from accounts.permissions import can, team_ids_for
from scheduler.ledger.entries import team_of
from scheduler.ledger.focus.rows import pseudonym
from scheduler.selectors.books.months import Books, Shelf, books_of

_NONE = "There is no such team or project for you."


@dataclass(frozen=True, slots=True)
class Place:
    """What an account of the ledger is called: slugs of now, the key of ever."""

    account: str
    team: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """`is_all`: every account; else the teams whose costs the viewer may see, and own jobs.

    People are named to who leads their team (`led`), to administrators and auditors. `parents`:
    teams that lie below another, with that one.
    """

    viewer: User
    is_all: bool
    is_operator: bool
    may_name_all: bool
    teams: frozenset[int]
    led: frozenset[int]
    places: Mapping[str, Place] = field(default_factory=dict)
    team_ids: Mapping[str, int] = field(default_factory=dict)
    parents: tuple[tuple[int, int], ...] = ()
    shelf: Shelf | None = None

    def books(self, period: str) -> Books:
        """A month's books, from the shelf where there is one. Raises NotFound for no month."""
        return self.shelf.books(period) if self.shelf else books_of(period)

    def place(self, account: str) -> Place:
        """Team and project of an account; an account that is gone keeps its key."""
        return self.places.get(account) or Place(account)

    def as_kept(self) -> dict[str, Any]:
        """What a file that is made now may hold, to be kept beside it."""
        return {
            "all": self.is_all,
            "operator": self.is_operator,
            "names": self.may_name_all,
            "teams": sorted(self.teams),
            "led": sorted(self.led),
        }

    def covers(self, kept: Mapping[str, Any]) -> bool:
        """Whether all that a kept file may hold is the viewer's still."""
        return bool(kept) and not (
            (kept["all"] and not self.is_all)
            or (kept["operator"] and not self.is_operator)
            or (kept["names"] and not self.may_name_all)
            or not (self.is_all or self.teams.issuperset(kept["teams"]))
            or not (self.may_name_all or self.led.issuperset(kept["led"]))
        )

    def shows(self, account: str) -> bool:
        """Whether the figures of an account are the viewer's."""
        team = team_of(account)
        return self.is_all or (
            team.startswith("team:") and int(team.removeprefix("team:")) in self.teams
        )

    def accounts(self, team: str = "", project: str = "") -> list[str] | None:
        """Accounts of a team or project the viewer may see; None: no limit. Raises NotFound."""
        if not team and not project:
            if self.is_all:
                return None
            return [key for key in self.places if self.shows(key)]
        if team == "platform" and self.is_all and not project:
            return ["platform"]
        return self._named(team, project, self.shows)

    def own_accounts(self, team: str = "", project: str = "") -> list[str] | None:
        """The same for who sees own jobs alone, of the teams they are in."""
        if not team and not project:
            return None
        teams = team_ids_for(self.viewer)
        return self._named(
            team, project, lambda key: teams is None or _number_of_team(key) in teams
        )

    def _named(self, team: str, project: str, shows: Callable[[str], bool]) -> list[str]:
        """What both name where both are given. Raises NotFound."""
        path = f"{team}/{project}" if team and project and "/" not in project else project or team
        wanted, _, name = path.partition("/")
        if team and team.partition("/")[0] != wanted:
            raise NotFound("The project asked for is not of this team.", field="team")
        found = [
            key
            for key, place in self.places.items()
            if place.team == wanted and (not name or place.project == name) and shows(key)
        ]
        if not found:
            raise NotFound(_NONE, field="project" if project else "team")
        return found

    def check_known(self, team: str = "", project: str = "") -> None:
        """Raises NotFound for what is none and what is not the viewer's; operators know all."""
        wanted, _, name = (project or team).partition("/")
        known = self.is_operator and any(
            place.team == wanted and name in ("", place.project) for place in self.places.values()
        )
        if not known:
            self.accounts(team, project)

    def person(self, user_id: int | None, username: str | None, account: str) -> str:
        """A person's name where the viewer may know it, else a pseudonym."""
        if user_id is None:
            return ""
        team = team_of(account).removeprefix("team:")
        leads = team.isdecimal() and int(team) in self.led
        if leads or self.may_name_all or user_id == self.viewer.pk:
            return username or ""
        return pseudonym(settings.SECRET_KEY, user_id)


def _number_of_team(account: str) -> int:
    team = team_of(account).removeprefix("team:")
    return int(team) if team.isdecimal() else 0


def scope_of(viewer: User, shelf: Shelf | None = None) -> Scope:
    """Read once for a report; one statement beside the viewer's rights."""
    is_all = can(viewer, "read_books", None)
    is_operator = can(viewer, "read_usage", None)
    seen = None if is_all else team_ids_for(viewer, "view_costs")
    led = None if is_all else team_ids_for(viewer, "manage_team")
    places: dict[str, Place] = {"platform": Place("platform", "platform")}
    team_ids: dict[str, int] = {}
    parents: dict[int, int] = {}
    rows = Team.objects.order_by("pk").values_list(
        "pk", "slug", "parent_id", "projects__pk", "projects__slug", named=False
    )
    for pk, slug, parent, project, name in rows:
        team_ids[slug] = pk
        if parent is not None:
            parents[pk] = parent
        places.setdefault(f"team:{pk}", Place(f"team:{pk}", slug))
        if project is not None:
            key = f"team:{pk}/project:{project}"
            places[key] = Place(key, slug, name)
    every = frozenset(team_ids.values())
    return Scope(
        viewer=viewer,
        is_all=is_all,
        is_operator=is_operator,
        may_name_all=can(viewer, "administer", None) or can(viewer, "read_audit", None),
        teams=frozenset() if is_all else every if seen is None else seen,
        led=frozenset() if is_all else every if led is None else led,
        places=places,
        team_ids=team_ids,
        parents=tuple(parents.items()),
        shelf=shelf,
    )
