"""What somebody's groups give and take back: counted here, done elsewhere. Asks no database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from accounts.models.identities import ORGANISATION_ROLES, TEAM_ROLES


@dataclass(frozen=True, slots=True)
class Held:
    """A role that somebody has, and whether groups gave it."""

    role: str
    by_groups: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One change: in a team, or (None) in the organisation; `before` and `after` are roles, empty
    for none. `groups` are those that give it."""

    team: int | None
    before: str
    after: str
    groups: tuple[str, ...] = ()


Rule = tuple[str, int | None, str]


def steps_for(
    groups: Collection[str],
    rules: Iterable[Rule],
    teams: Mapping[int, Held],
    organisation: Mapping[str, bool],
) -> list[Step]:
    """The changes that bring somebody in line with `rules` (group, team, role): what is taken back
    first, in teams and then in the organisation.

    `teams`: what they have by team; `organisation`: role, and whether groups gave it. In a team the
    first of lead, member and finance holds that any group gives. What a person gave stays.
    """
    wanted: dict[int, dict[str, list[str]]] = {}
    everywhere: dict[str, list[str]] = {}
    for group, team, role in rules:
        if group in groups:
            roles = everywhere if team is None else wanted.setdefault(team, {})
            roles.setdefault(role, []).append(group)
    # Teams before the organisation, as whoever changes a team's operator locks them.
    steps = [
        Step(team, held.role, "")
        for team, held in sorted(teams.items())
        if held.by_groups and team not in wanted
    ]
    for team, roles in sorted(wanted.items()):
        role = next(each for each in TEAM_ROLES if each in roles)
        held_now = teams.get(team)
        if held_now is None or (held_now.by_groups and held_now.role != role):
            before = held_now.role if held_now else ""
            steps.append(Step(team, before, str(role), tuple(sorted(roles[role]))))
    steps += [
        Step(None, role, "")
        for role, by in sorted(organisation.items())
        if by and role not in everywhere
    ]
    steps += [
        Step(None, "", str(role), tuple(sorted(everywhere[role])))
        for role in ORGANISATION_ROLES
        if role in everywhere and role not in organisation
    ]
    return steps
