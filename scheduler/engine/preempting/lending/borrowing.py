"""Who runs on what is borrowed of one pool and model, followed as jobs start and stop.

An account that holds more than its own borrows the rest, and of its jobs the newest that may be
stopped are what runs on that, until they add up to what it borrows; of jobs of accounts further
down only those that run on what is borrowed there. Columns for the first look at all, plain lists
afterwards: a start concerns a few accounts with a few dozen jobs each, which takes less time to
walk through than a single call for a column takes.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from scheduler.engine.sharing.cohorts import Cohorts
from scheduler.engine.snapshot import NONE, Flags, Ints, flags, ints, running_sum


def newest_of(account: Ints, left: Ints, may_go: Flags, milli: Ints, age: Ints) -> Flags:
    """By job, whether it is among the newest of its account that add up to what is `left` of what
    that one borrows. `age`: places from the newest to the oldest.

    """
    rows = np.flatnonzero(may_go & (account != NONE) & (milli > 0))
    rows = rows[np.lexsort((age[rows], account[rows]))]
    before = running_sum(milli[rows], account[rows]) - milli[rows]
    chosen = np.zeros(len(account), dtype=np.bool_)
    chosen[rows[before < left[account[rows]]]] = True
    return flags(chosen)


def borrowed_by_level(
    levels: list[Ints], borrows: Ints, may_go: Flags, is_gone: Flags, milli: Ints, age: Ints
) -> list[Flags]:
    """By level of the tree, by job, whether it runs on what its account there borrows.

    The simple form of what `Borrowed` keeps up to date. `borrows`: by account, nobody's last.
    """
    found: list[Flags] = []
    for column in reversed(levels):
        left = borrows.copy()
        np.subtract.at(left, column[is_gone], milli[is_gone])
        found.insert(0, newest_of(column, left, may_go, milli, age))
        may_go = flags(np.where(column == NONE, may_go, found[0]))
    return found


class Borrowed:
    """Who runs on what is borrowed: `by_level` of the tree, by job.

    It follows what is charged and who is gone, and looks only at the accounts that concerns.
    `news`: levels and jobs for which the answer changed, in turn.
    """

    def __init__(self, cohorts: Cohorts, levels: list[Ints], milli: Ints, age: Ints) -> None:
        self.by_level: list[list[bool]] = []
        self.news: list[tuple[int, int]] = []
        self._cohorts = cohorts
        self._levels = levels
        self._age = age
        self._held = milli
        self._milli: list[int] = milli.tolist()
        self._charged = NONE
        self._is_gone: Flags = flags(np.zeros(len(age)))
        self._may_go: list[bool] = []
        # By level and account: what those held who are gone; and how far down its jobs, the newest
        # first, anybody may run on what is borrowed.
        self._gone_milli: dict[tuple[int, int], int] = {}
        self._reach: dict[tuple[int, int], int] = {}
        # By level, the accounts of which anybody did at first.
        self._had_any: list[set[int]] = []

    def update(self, may_go: Flags, is_gone: Flags) -> None:
        """As things are now."""
        if self._charged == NONE:
            self._begin(may_go, is_gone)
            return
        charged = self._cohorts.charged[self._charged :]
        gone = np.flatnonzero(is_gone != self._is_gone).tolist()
        if not charged and not gone:
            return
        self._charged = len(self._cohorts.charged)
        stale: set[tuple[int, int]] = set()
        for account in set(charged):
            stale.update(enumerate(reversed(self._cohorts.tree.way_up(account))))
        self._is_gone[gone] = True
        for job in gone:
            self._may_go[job] = False
            for level, column in enumerate(self._columns):
                if (account := column[job]) != NONE:
                    stale.add((level, account))
                    self._note_gone(level, account, self._milli[job])
        # What is borrowed further down says who goes further up.
        for level, account in sorted(stale, reverse=True):
            # Whoever is at the top borrows from nobody.
            if 0 < level < len(self._levels):
                self._look_again(level, account)

    def _begin(self, may_go: Flags, is_gone: Flags) -> None:
        self._charged, self._is_gone = len(self._cohorts.charged), is_gone.copy()
        self._may_go = may_go.tolist()
        borrows = ints([*(self._cohorts.borrows(row) for row in range(len(self._cohorts.own))), 0])
        found = borrowed_by_level(self._levels, borrows, may_go, is_gone, self._held, self._age)
        self.by_level = [level.tolist() for level in found]
        self._had_any = [
            set(column[level].tolist()) for column, level in zip(self._levels, found, strict=True)
        ]
        for job in np.flatnonzero(is_gone).tolist():
            for level, column in enumerate(self._levels):
                self._note_gone(level, int(column[job]), self._milli[job])

    def _note_gone(self, level: int, account: int, milli: int) -> None:
        where = level, account
        self._gone_milli[where] = self._gone_milli.get(where, 0) + milli

    def _look_again(self, level: int, account: int) -> None:
        """The jobs of one account at one level anew, the newest first."""
        where, mine, milli = (level, account), self.by_level[level], self._milli
        jobs = self._members[level].get(account, [])
        below = self.by_level[level + 1] if level + 1 < len(self._levels) else mine
        ends_here, may_go = self._ends_here[level], self._may_go
        left = self._cohorts.borrows(account) - self._gone_milli.get(where, 0)
        reach, upto = self._reach.get(where), 0
        if reach is None:
            reach = len(jobs) if account in self._had_any[level] else 0
        for at, job in enumerate(jobs):
            if left <= 0 and at >= reach:
                break
            goes = left > 0 and may_go[job] and (ends_here[job] or below[job]) and milli[job] > 0
            if goes:
                left -= milli[job]
                upto = at + 1
            if goes != mine[job]:
                mine[job] = goes
                self.news.append((level, job))
        self._reach[where] = upto

    @cached_property
    def _columns(self) -> list[list[int]]:
        """By level and job the account there."""
        return [column.tolist() for column in self._levels]

    @cached_property
    def _ends_here(self) -> list[list[bool]]:
        """By level and job, whether its account is no further down."""
        nothing = np.full(len(self._age), NONE)
        return [(column == NONE).tolist() for column in [*self._levels[1:], nothing]]

    @cached_property
    def _members(self) -> list[dict[int, list[int]]]:
        """By level and account its jobs, the newest first."""
        newest_first = np.argsort(self._age, kind="stable").tolist()
        found = []
        for column in self._columns:
            members: dict[int, list[int]] = {}
            for job in newest_first:
                members.setdefault(column[job], []).append(job)
            found.append(members)
        return found
