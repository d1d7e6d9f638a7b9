"""The tree of teams, read whole: there are few teams, and one query tells all of it; and what
somebody holds in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    Exists,
    F,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast

from accounts.models import (
    ProjectGroupObjectPermission,
    Role,
    Team,
    TeamGroupObjectPermission,
    User,
)
from accounts.models.rows import AsJson, rows_in
from accounts.models.teams import MAX_DEPTH
from accounts.policy import TEAM
from accounts.statements import AskedOnce

_WHOLE, _TEXT = BigIntegerField(), CharField(max_length=150)
# From a team to the one above it, the one above that, and so on.
WAYS_UP = tuple(("parent__" * steps).removesuffix("__") for steps in range(1, MAX_DEPTH))
_IN_LEAD = Q(group__name__startswith=TEAM, group__name__endswith=f":{Role.LEAD}")
GROUP, PROJECT, TEAM_RIGHT, BELOW = "group", "project", "team", "below"


def teams_below(tops: set[int]) -> set[int]:
    """Ids of all teams below these, without them; one query."""
    rows = Team.objects.filter(parent__isnull=False).values_list("pk", "parent_id")
    return below(tops, list(rows))


def below(tops: set[int], rows: Sequence[tuple[int, int]]) -> set[int]:
    """The same from rows (team, its parent) that are there already."""
    found: set[int] = set()
    level = set(tops)
    while level:
        level = {pk for pk, parent in rows if parent in level} - found
        found |= level
    return found - tops


@dataclass(frozen=True, slots=True)
class Around:
    """What is near a team: the teams above, from the top; those right below; those that it may be
    put below; and its service accounts by name."""

    above: list[Team]
    below: list[Team]
    parents: list[Team]
    services: list[str]


def levels() -> Case:
    """As a column: on which level from the top a team is; 1 is the top."""
    deepest_first = reversed(list(enumerate(WAYS_UP, 2)))
    return Case(*(When(**{f"{way}__isnull": False}, then=n) for n, way in deepest_first), default=1)


def around(team: Team, rows: list[Any], offered: Iterable[Any]) -> Around:
    """From the teams that are seen, each with its `level`, the `steps_up` to it and the names
    `served`; of the `offered` those below which the team fits with all its levels, in no circle.
    """
    under = below({team.pk}, [(one.pk, one.parent_id) for one in rows if one.parent_id])
    own = next((one.level for one in rows if one.pk == team.pk), 1)
    height = 1 + max((one.level - own for one in rows if one.pk in under), default=0)
    never = under | {team.pk, team.parent_id or 0}
    above = [one for one in rows if one.steps_up]
    above.sort(key=lambda one: -one.steps_up)
    return Around(
        above=above,
        below=[one for one in rows if one.parent_id == team.pk],
        parents=[one for one in offered if one.pk not in never and one.level + height <= MAX_DEPTH],
        services=sorted(name for one in rows for (name,) in rows_in(one.served)),
    )


def teams_above(team: Team) -> tuple[int, ...]:
    """Ids from the parent to the top; one query."""
    return ways_up([team.pk])[team.pk]


def leads_above(team: Team) -> Q:
    """People who lead a team above this one, and so this one too; no query of its own."""
    found, itself = Q(), Team.objects.filter(pk=team.pk)
    for way in WAYS_UP:
        found |= Q(memberships__role=Role.LEAD, memberships__team__in=itself.values(way))
    return found


def height_of(team: Team) -> int:
    """How many levels of teams begin with this one, itself included; one query."""
    rows = list(Team.objects.filter(parent__isnull=False).values_list("pk", "parent_id"))
    level, height = {team.pk}, 0
    while level and height <= len(rows):
        height += 1
        level = {pk for pk, parent in rows if parent in level}
    return height


def _parents() -> QuerySet[Team, tuple[Any, ...]]:
    return Team.objects.filter(parent__isnull=False).values_list("pk", "parent_id")


# Asked with every start and end of a job.
_PARENTS = AskedOnce(_parents)


def ways_up(teams: Iterable[int] | None = None) -> dict[int, tuple[int, ...]]:
    """For each of these teams (ids) those above it, its parent first; one query.

    None: every team that lies below another one.
    """
    parents = dict(_PARENTS.read())
    found: dict[int, tuple[int, ...]] = {}
    for team in parents if teams is None else teams:
        way: list[int] = []
        above = parents.get(team)
        while above is not None and above not in way:
            way.append(above)
            above = parents.get(above)
        found[team] = tuple(way)
    return found


def rights_of_groups(names: frozenset[str]) -> Iterable[tuple[str, int, str, int]]:
    """The same as `rights_of` for whoever is in these groups; a lead's tree is always told."""
    found = [(GROUP, 0, name, 0) for name in names]
    for what, rights in (
        (PROJECT, ProjectGroupObjectPermission.objects),
        (TEAM_RIGHT, TeamGroupObjectPermission.objects),
    ):
        rows = rights.filter(group__name__in=names).order_by()
        pairs = rows.values_list("content_object_id", "permission__codename")
        found += [(what, int(number), word, 0) for number, word in pairs]
    tree = Team.objects.filter(parent__isnull=False).values_list("pk", "parent_id")
    return [*found, *((BELOW, pk, "", parent) for pk, parent in tree)]


def rights_of(user: int | Subquery) -> QuerySet[Any, tuple[str, int, str, int]]:
    """What, number, word, parent: names of groups; rights on projects and teams by their numbers;
    and, for who leads a team, every team below another with the one above it."""
    groups = User.groups.through.objects.filter(user=user).order_by()
    lead = groups.filter(_IN_LEAD)
    rows = _tagged(groups, GROUP, 0, "group__name")
    of_it = (
        (PROJECT, ProjectGroupObjectPermission.objects.filter(group__user=user)),
        (TEAM_RIGHT, TeamGroupObjectPermission.objects.filter(group__user=user)),
    )
    more = [
        _tagged(found.order_by(), what, "content_object_id", "permission__codename")
        for what, found in of_it
    ]
    tree = Team.objects.filter(Exists(lead), parent__isnull=False).order_by()
    more.append(_tagged(tree, BELOW, "pk", "", "parent_id"))
    return rows.union(*more, all=True)


def rights_of_all(users: QuerySet[Any, Any]) -> QuerySet[Any, tuple[str, int, str, int]]:
    """The same of several people: the number behind a right is whose it is; the tree is told
    whoever leads."""
    groups = User.groups.through.objects.filter(user__in=users).order_by()
    rows = _tagged(groups, GROUP, 0, "group__name", "user_id")
    of_it = (
        (PROJECT, ProjectGroupObjectPermission.objects.filter(group__user__in=users)),
        (TEAM_RIGHT, TeamGroupObjectPermission.objects.filter(group__user__in=users)),
    )
    right = "content_object_id", "permission__codename", "group__user"
    more = [_tagged(found.order_by(), what, *right) for what, found in of_it]
    tree = Team.objects.filter(parent__isnull=False).order_by()
    return rows.union(*more, _tagged(tree, BELOW, "pk", "", "parent_id"), all=True)


def of_one(rows: Iterable[tuple[str, int, str, int]], user: int) -> list[tuple[str, int, str, int]]:
    """Of the rows of `rights_of_all` those that `rights_of` gives for this person."""
    return [
        (what, number, word, number_of if what == BELOW else 0)
        for what, number, word, number_of in rows
        if what == BELOW or number_of == user
    ]


_RIGHTS = AskedOnce(rights_of)


def read_rights(user: int) -> list[tuple[str, int, str, int]]:
    """The rows of `rights_of`; one statement."""
    return _RIGHTS.read(user)


def people_with_rights(user: int | Subquery) -> QuerySet[User]:
    """The person as a query, to read more along with it; `rights_read` has the rows."""
    rights = AsJson(rights_of(user), columns="tag_, number_, word_, parent_")
    return User.objects.filter(pk=user).annotate(rights_read=rights)


_PEOPLE = AskedOnce(people_with_rights)


def with_rights(user: int) -> User | None:
    """The person, with all that `can` asks about them; one statement."""
    found: list[User] = _PEOPLE.read(user)
    return found[0] if found else None


def _tagged(
    rows: QuerySet[Any], what: str, number: str | int, word: str, parent: str | int = 0
) -> QuerySet[Any, tuple[str, int, str, int]]:
    """Rows of one shape, whatever table they come from; a 0 or an empty name is a constant."""
    return rows.annotate(
        tag_=Value(what),
        number_=Cast(F(number) if isinstance(number, str) else Value(number), _WHOLE),
        word_=Cast(F(word) if word else Value(""), _TEXT),
        parent_=Cast(F(parent) if isinstance(parent, str) else Value(parent), _WHOLE),
    ).values_list("tag_", "number_", "word_", "parent_")
