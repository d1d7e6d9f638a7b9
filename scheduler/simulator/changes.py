"""Changes of a setting, as they are written on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduler.engine.policy import Order
from scheduler.simulator.events import in_order, parse_event
from scheduler.simulator.teams import Teams
from scheduler.simulator.whatif import Setting

CHANGES = (
    "nodes=12, policy=fair, preempt=yes, weight:TEAM=2, guaranteed:TEAM=8, maximum:TEAM=16, "
    "lose:3@3600 (node 3 an hour in), drain:… or restore:…"
)


class ChangeInvalid(ValueError):
    """The text is no change; it says what to write instead."""


def changed(setting: Setting, changes: Sequence[str]) -> Setting:
    """The setting with these changes, one after the other. Raises ChangeInvalid."""
    for text in changes:
        try:
            setting = _changed(setting, text)
        except ValueError as error:
            raise ChangeInvalid(f"{text!r}: {error}; known: {CHANGES}") from None
    try:
        return replace(setting, events=in_order(setting.events, setting.nodes))
    except ValueError as error:
        raise ChangeInvalid(str(error)) from None


def _changed(setting: Setting, text: str) -> Setting:
    name, sign, value = text.partition("=")
    kind, _, team = name.partition(":")
    if not sign:
        return replace(setting, events=(*setting.events, parse_event(text)))
    if name == "nodes":
        return replace(setting, nodes=_positive(value))
    if name == "policy":
        return replace(setting, policy=replace(setting.policy, order=Order(value)))
    if name == "preempt":
        if value not in ("yes", "no"):
            raise ValueError("preempt is yes or no")
        policy = replace(setting.policy, preempts=value == "yes")
        if policy.stops_lower_tiers:
            raise ValueError("in the simulator only policy=shortest and policy=las preempt")
        return replace(setting, policy=policy)
    if kind in ("weight", "guaranteed", "maximum") and setting.teams is not None:
        return replace(setting, teams=_with_team(setting.teams, kind, team, value))
    raise ValueError("no such change")


def _with_team(teams: Teams, kind: str, team: str, value: str) -> Teams:
    if team not in teams.names:
        raise ValueError(f"there is no team {team!r}; teams are {', '.join(teams.names)}")
    row = teams.names.index(team)
    column = list(getattr(teams, kind))
    column[row] = float(value) if kind == "weight" else int(value)
    if column[row] < 0 or (kind == "weight" and not 0 < column[row] < float("inf")):
        raise ValueError("the number must be positive")
    columns = {kind: tuple(column)}
    return replace(teams, **columns)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError("write a whole number of at least 1")
    return int(text)
