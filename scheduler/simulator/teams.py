"""Teams that share a pool: their weights and limits, and what they have used so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.engine.snapshot import NONE, Accounts, Floats, Ints, Limits, floats, ints

# Row 0 is the whole organisation; team n is row n + 1.
FIRST_TEAM = 1


@dataclass(frozen=True, slots=True)
class PoolLimit:
    """What a team (row) has of one pool (row) beside what it has of the whole cluster."""

    team: int
    pool: int
    guaranteed: int = 0
    borrow_limit: int = NONE
    lend_limit: int = NONE
    maximum: int = NONE


@dataclass(frozen=True, slots=True)
class Teams:
    """Team by team: its weight, the GPUs that are its own, the most it may hold or -1, of all pools
    together; `of_pools` has what holds in one of them.

    `borrow_limit` and `lend_limit`, -1 without one, and `parent`, the row of the team it belongs to
    (one before it) or -1, may be left empty: nobody has any.
    """

    names: tuple[str, ...]
    weight: tuple[float, ...]
    guaranteed: tuple[int, ...]
    maximum: tuple[int, ...]
    borrow_limit: tuple[int, ...] = ()
    lend_limit: tuple[int, ...] = ()
    parent: tuple[int, ...] = ()
    of_pools: tuple[PoolLimit, ...] = ()

    @classmethod
    def equal(cls, names: tuple[str, ...]) -> Teams:
        """All weigh the same and nobody is limited."""
        size = len(names)
        return cls(names, (1.0,) * size, (0,) * size, (NONE,) * size)

    def limits(self) -> Limits:
        """The rows of teams that have any."""
        rows = [*self._of_all(), *self.of_pools]
        rows = [
            row for row in rows if row.guaranteed or row.maximum != NONE or row.borrow_limit != NONE
        ]
        return Limits.of(
            account=ints([row.team + FIRST_TEAM for row in rows]),
            pool=ints([row.pool for row in rows]),
            guaranteed=ints([row.guaranteed for row in rows]),
            borrow_limit=ints([row.borrow_limit for row in rows]),
            lend_limit=ints([row.lend_limit for row in rows]),
            maximum=ints([row.maximum for row in rows]),
        )

    def parents(self) -> tuple[int, ...]:
        """By row: the row of the team it belongs to, or -1."""
        return self._filled(self.parent)

    def most(self, pool: int = NONE) -> Ints:
        """By row: the most it may ever hold of all pools or of one, by its own limits and those
        above it, or -1.
        """
        own: list[list[int]] = [[] for _ in self.names]
        for one in (*self._of_all(), *self.of_pools):
            if one.pool in (NONE, pool):
                own[one.team].append(one.maximum)
                if one.borrow_limit != NONE:
                    own[one.team].append(one.guaranteed + one.borrow_limit)
        found: list[int] = []
        for ceilings, up in zip(own, self.parents(), strict=True):
            if up != NONE:
                ceilings.append(found[up])
            found.append(min((one for one in ceilings if one != NONE), default=NONE))
        return ints(found)

    def _of_all(self) -> list[PoolLimit]:
        columns = (
            self.guaranteed,
            self._filled(self.borrow_limit),
            self._filled(self.lend_limit),
            self.maximum,
        )
        rows = enumerate(zip(*columns, strict=True))
        return [PoolLimit(row, NONE, *figures) for row, figures in rows]

    def _filled(self, column: tuple[int, ...]) -> tuple[int, ...]:
        return column or (NONE,) * len(self.names)


class Use:
    """GPU-seconds by team, decayed by a half-life."""

    def __init__(self, teams: Teams, half_life_s: float) -> None:
        self.teams = teams
        self._half_life_s = half_life_s
        self._used_gpu_s: Floats = floats(np.zeros(len(teams.names)))
        self._at_s = 0.0

    def add(self, team: int, gpu_s: float, now_s: float) -> None:
        """Count what a job of the team has held."""
        self._decay(now_s)
        self._used_gpu_s[team] += gpu_s

    def tables(self, now_s: float) -> dict[str, Any]:
        """The parts of a snapshot that say who shares the pool."""
        return {
            "accounts": self._accounts(now_s),
            "limits": self.teams.limits(),
            "account_names": ("all", *self.teams.names),
        }

    def _accounts(self, now_s: float) -> Accounts:
        self._decay(now_s)
        ups = [0 if up == NONE else up + FIRST_TEAM for up in self.teams.parents()]
        return Accounts.of(
            parent=ints([NONE, *ups]),
            weight=floats([1.0, *self.teams.weight]),
            used_gpu_s=floats([0.0, *self._used_gpu_s.tolist()]),
        )

    def _decay(self, now_s: float) -> None:
        self._used_gpu_s *= 0.5 ** ((now_s - self._at_s) / self._half_life_s)
        self._at_s = now_s


def account_of(team: Ints) -> Ints:
    """Rows of the tree for teams counted from 0."""
    return ints(team + FIRST_TEAM)
