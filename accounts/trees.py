"""The tree of teams, read whole: there are few teams, and one query tells all of it."""

from __future__ import annotations

from collections.abc import Iterable

from accounts.models import Team


def teams_below(tops: set[int]) -> set[int]:
    """Ids of all teams below these, without them; one query."""
    found: set[int] = set()
    rows = list(Team.objects.filter(parent__isnull=False).values_list("pk", "parent_id"))
    level = set(tops)
    while level:
        level = {pk for pk, parent in rows if parent in level} - found
        found |= level
    return found - tops


def teams_above(team: Team) -> tuple[int, ...]:
    """Ids from the parent to the top; one query."""
    return ways_up([team.pk])[team.pk]


def height_of(team: Team) -> int:
    """How many levels of teams begin with this one, itself included; one query."""
    rows = list(Team.objects.filter(parent__isnull=False).values_list("pk", "parent_id"))
    level, height = {team.pk}, 0
    while level and height <= len(rows):
        height += 1
        level = {pk for pk, parent in rows if parent in level}
    return height


def ways_up(teams: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """For each of these teams (ids) those above it, its parent first; one query."""
    parents = dict(Team.objects.filter(parent__isnull=False).values_list("pk", "parent_id"))
    found: dict[int, tuple[int, ...]] = {}
    for team in teams:
        way: list[int] = []
        above = parents.get(team)
        while above is not None and above not in way:
            way.append(above)
            above = parents.get(above)
        found[team] = tuple(way)
    return found
