"""Teams that share a pool: their weights and limits, and what they have used so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.engine.snapshot import NONE, Accounts, Floats, Ints, Limits, floats, ints

# Row 0 is the whole organisation; team n is row n + 1.
FIRST_TEAM = 1


@dataclass(frozen=True, slots=True)
class Teams:
    """Team by team: its weight, the GPUs that are its own, the most it may hold or -1."""

    names: tuple[str, ...]
    weight: tuple[float, ...]
    guaranteed: tuple[int, ...]
    maximum: tuple[int, ...]

    @classmethod
    def equal(cls, names: tuple[str, ...]) -> Teams:
        """All weigh the same and nobody is limited."""
        size = len(names)
        return cls(names, (1.0,) * size, (0,) * size, (NONE,) * size)

    def limits(self) -> Limits:
        """The rows of teams that have any."""
        rows = [
            row
            for row in range(len(self.names))
            if self.guaranteed[row] or self.maximum[row] != NONE
        ]
        return Limits.of(
            account=ints([row + FIRST_TEAM for row in rows]),
            pool=ints([0] * len(rows)),
            guaranteed=ints([self.guaranteed[row] for row in rows]),
            maximum=ints([self.maximum[row] for row in rows]),
        )


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
        size = len(self.teams.names)
        return Accounts.of(
            parent=ints([NONE, *[0] * size]),
            weight=floats([1.0, *self.teams.weight]),
            used_gpu_s=floats([0.0, *self._used_gpu_s.tolist()]),
        )

    def _decay(self, now_s: float) -> None:
        self._used_gpu_s *= 0.5 ** ((now_s - self._at_s) / self._half_life_s)
        self._at_s = now_s


def account_of(team: Ints) -> Ints:
    """Rows of the tree for teams counted from 0."""
    return ints(team + FIRST_TEAM)
