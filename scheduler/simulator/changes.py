"""Changes of a setting, as they are written on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from scheduler.engine.policy import Order, PlacementRule, Policy, PoolPolicy
from scheduler.engine.snapshot import NONE
from scheduler.simulator.events import in_order, parse_event
from scheduler.simulator.teams import PoolLimit, Teams
from scheduler.simulator.whatif import Setting

CHANGES = (
    "nodes=12, policy=fair, preempt=yes, placement=pack, weight:TEAM=2, guaranteed:TEAM=8, "
    "maximum:TEAM=16, lose:3@3600 (node 3 an hour in), drain:… or restore:…; of one of several "
    "pools nodes:POOL=12, policy:POOL=…, preempt:POOL=…, placement:POOL=…, maximum:TEAM@POOL=16, "
    "lose:POOL/3@3600"
)
# Nodes, GPUs and weights beyond this are slips.
MOST = 999_999
_DIALS = ("policy", "preempt", "placement")
_OF_TEAM = ("weight", "guaranteed", "maximum")


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
        return replace(setting, events=in_order(setting.events, setting.pools()))
    except ValueError as error:
        raise ChangeInvalid(str(error)) from None


def _changed(setting: Setting, text: str) -> Setting:
    name, sign, value = text.partition("=")
    kind, _, whose = name.partition(":")
    if not sign:
        return replace(setting, events=(*setting.events, parse_event(text)))
    if kind == "nodes":
        return replace(setting, nodes=_with_nodes(setting, whose, _positive(value)))
    if kind in _DIALS:
        return replace(setting, policy=_with_dial(setting, kind, whose, value))
    if kind in _OF_TEAM and setting.teams is not None:
        return replace(setting, teams=_with_team(setting, setting.teams, kind, whose, value))
    raise ValueError("no such change")


def _with_nodes(setting: Setting, pool: str, count: int) -> int | tuple[int, ...]:
    pools = setting.pools()
    row = pools.row(pool)
    if isinstance(setting.nodes, int):
        return count
    return tuple(count if one == row else had for one, had in enumerate(pools.nodes))


def _with_dial(setting: Setting, kind: str, pool: str, value: str) -> Policy:
    """Of the cluster and all its pools, or of one pool."""
    names = setting.pools().names
    wanted = _dial(kind, value)
    if pool:
        setting.pools().row(pool)
    policy = setting.policy
    own = [_of_pool(policy, name) for name in names if _has_own(policy, name) or name == pool]
    own = [replace(one, **wanted) if pool in ("", one.pool) else one for one in own]
    return replace(policy, pools=tuple(own), **({} if pool else wanted))


def _dial(kind: str, value: str) -> dict[str, Any]:
    if kind == "policy":
        return {"order": _one_of(Order, value)}
    if kind == "placement":
        return {"placement": _one_of(PlacementRule, value)}
    if value not in ("yes", "no"):
        raise ValueError("preempt is yes or no")
    return {"preempts": value == "yes"}


def _one_of(words: type[Order] | type[PlacementRule], value: str) -> Order | PlacementRule:
    if value not in set(words):
        raise ValueError(f"choose one of {', '.join(words)}")
    return words(value)


def _has_own(policy: Policy, pool: str) -> bool:
    return any(one.pool == pool for one in policy.pools)


def _of_pool(policy: Policy, pool: str) -> PoolPolicy:
    """What holds in this pool, as dials of its own."""
    dials = policy.of(pool)
    names = [one.name for one in fields(PoolPolicy) if one.name != "pool"]
    return PoolPolicy(pool=pool, **{name: getattr(dials, name) for name in names})


def _with_team(setting: Setting, teams: Teams, kind: str, whose: str, value: str) -> Teams:
    """Of all pools together, or of one: `TEAM@POOL`."""
    team, _, pool = whose.partition("@")
    if team not in teams.names:
        raise ValueError(f"there is no team {team!r}; teams are {', '.join(teams.names)}")
    row = teams.names.index(team)
    figure = float(value) if kind == "weight" else int(value)
    if not 0 <= figure <= MOST or (kind == "weight" and not figure):
        raise ValueError(f"the number must be positive, {MOST} at most")
    if pool:
        if kind == "weight":
            raise ValueError("a weight is of all pools together")
        return _with_pool_limit(teams, row, setting.pools().row(pool), kind, int(figure))
    column = list(getattr(teams, kind))
    column[row] = figure
    columns: dict[str, Any] = {kind: tuple(column)}
    return replace(teams, **columns)


def _with_pool_limit(teams: Teams, team: int, pool: int, kind: str, figure: int) -> Teams:
    others = [one for one in teams.of_pools if (one.team, one.pool) != (team, pool)]
    mine = [one for one in teams.of_pools if (one.team, one.pool) == (team, pool)]
    had = mine[0] if mine else PoolLimit(team, pool, maximum=NONE)
    columns: dict[str, Any] = {kind: figure}
    return replace(teams, of_pools=(*others, replace(had, **columns)))


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not int(text):
        raise ValueError(f"write a whole number from 1 to {MOST}")
    return int(text)
