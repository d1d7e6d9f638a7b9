"""What owners lent and take back: which live jobs run on it.

An account that holds more than its own borrows the rest, and of its jobs the newest that may be
stopped are what runs on that, until they add up to what it borrows; of jobs of accounts further
down only those that run on what is borrowed there. A job within the guarantee of an account takes
back from those outside of that account, whatever their tier: it was lent on that condition. Where
the two part in the tree, the other side has to borrow: within its guarantee a team keeps what it
runs. Jobs of nobody hold what is nobody's. The vocabulary and order are those of Kueue (cohorts,
reclaim) with the newest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.preempting.targeting import Targeting
from scheduler.engine.sharing.cohorts import Cohorts
from scheduler.engine.sharing.holdings import Scope
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.sharing.tree import held_milli
from scheduler.engine.snapshot import NONE, Flags, Ints, Request, flags, ints, running_sum


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
    """Who runs on what is borrowed of one pool and model: by level of the tree, by job.

    It follows what is charged and who is gone, and looks only at the accounts that concerns.
    """

    def __init__(self, cohorts: Cohorts, levels: list[Ints], milli: Ints, age: Ints) -> None:
        self.by_level: list[Flags] = []
        self._cohorts = cohorts
        self._levels = levels
        self._milli = milli
        self._age = age
        self._charged = NONE
        self._gone: Flags = flags(np.zeros(len(age)))
        # By level, jobs in the order of accounts, the newest first, and where accounts begin.
        self._order = [ints(np.lexsort((age, column))) for column in levels]
        self._first = [
            ints(np.searchsorted(column[order], np.arange(len(cohorts.own) + 1)))
            for column, order in zip(levels, self._order, strict=True)
        ]

    def update(self, may_go: Flags, is_gone: Flags) -> None:
        """As things are now."""
        if self._charged == NONE:
            self._begin(may_go, is_gone)
            return
        charged = self._cohorts.charged[self._charged :]
        gone = np.flatnonzero(is_gone & ~self._gone)
        if not charged and not len(gone):
            return
        self._charged, self._gone = len(self._cohorts.charged), is_gone.copy()
        stale: set[tuple[int, int]] = set()
        for account in set(charged):
            for level, row in enumerate(reversed(self._cohorts.tree.way_up(account))):
                stale.add((level, row))
        for level, column in enumerate(self._levels):
            stale |= {(level, row) for row in column[gone].tolist() if row != NONE}
        # What is borrowed further down says who goes further up.
        for level, account in sorted(stale, reverse=True):
            # Whoever is at the top borrows from nobody.
            if 0 < level < len(self._levels):
                self._look_again(level, account, may_go, is_gone)

    def _begin(self, may_go: Flags, is_gone: Flags) -> None:
        self._charged, self._gone = len(self._cohorts.charged), is_gone.copy()
        borrows = ints([*(self._cohorts.borrows(row) for row in range(len(self._cohorts.own))), 0])
        self.by_level = borrowed_by_level(
            self._levels, borrows, may_go, is_gone, self._milli, self._age
        )

    def _look_again(self, level: int, account: int, may_go: Flags, is_gone: Flags) -> None:
        first = self._first[level]
        rows = self._order[level][int(first[account]) : int(first[account + 1])]
        left = self._cohorts.borrows(account)
        if left:
            left -= int(self._milli[rows[is_gone[rows]]].sum())
        if left <= 0:
            self.by_level[level][rows] = False
            return
        stays = may_go[rows] & (self._milli[rows] > 0)
        if level + 1 < len(self._levels):
            stays &= self.by_level[level + 1][rows] | (self._levels[level + 1][rows] == NONE)
        milli = np.where(stays, self._milli[rows], 0)
        self.by_level[level][rows] = stays & (np.cumsum(milli) - milli < left)


# Pool and model, and the accounts from the top down to the owner: the way on which others part from
# it. An owner that borrows nothing has none of those who may go, and is told by -1.
Side: TypeAlias = tuple[Scope, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """What an owner may take back: from which side, and the jobs (rows of `Running`) there."""

    owner: int
    side: Side
    takers: Flags


class Reclaiming:
    """Rows are those of `Running`. What is borrowed is as of this moment of the cycle."""

    def __init__(self, gate: Gate, targeting: Targeting) -> None:
        self._gate = gate
        self._targeting = targeting
        self._jobs = targeting.running.jobs
        self._levels = _levels(gate, self._jobs.account)
        by_age = np.lexsort((-self._jobs.id, targeting.running.ran_s))
        self._age: Ints = ints(np.argsort(by_age))
        self._milli: dict[Scope, Ints] = {}
        self._borrowed: dict[Scope, Borrowed] = {}
        # Found takers, and after how many charges and departures.
        self._found: dict[Side, tuple[tuple[int, int], Flags]] = {}

    def may_claim(self, account: int) -> bool:
        """Whether the account has any guarantee left, and somebody outside borrows."""
        if account == NONE:
            return False
        return any(
            (owner := cohorts.guarantor(account, 1)) != NONE
            and bool(self._takers(self._side(scope, owner)).any())
            for scope, cohorts in self._gate.cohorts.items()
        )

    def find(self, request: Request, account: int) -> Claim | None:
        """Within whose guarantee the request is, and who may go for it."""
        milli = self._gate.quota_milli(request)
        for scope, cohorts in self._gate.concerned(request):
            owner = NONE if account == NONE else cohorts.guarantor(account, milli)
            if owner != NONE:
                side = self._side(scope, owner)
                takers = self._takers(side)
                if takers.any():
                    return Claim(owner, side, takers)
        return None

    def _side(self, scope: Scope, owner: int) -> Side:
        """Whom the owner takes from: all who hold no more than their own take from the same."""
        cohorts, way = self._gate.cohorts[scope], self._gate.tree.way_up(owner)[::-1]
        return scope, (*way[:-1], owner if cohorts.borrows(owner) else NONE)

    def _takers(self, side: Side) -> Flags:
        """Who runs on what is borrowed by accounts neither above the owner nor below it."""
        cohorts = self._gate.cohorts[side[0]]
        as_of = len(cohorts.charged), self._targeting.departures
        before = self._found.get(side)
        if before is None or before[0] != as_of:
            before = self._found[side] = as_of, self._find_takers(side)
        return before[1]

    def _find_takers(self, side: Side) -> Flags:
        """`_takers` as of this moment."""
        scope, way = side
        found = (self._jobs.account == NONE) & self._targeting.may_go
        is_above = flags(np.ones(len(found)))
        by_level = self._borrowed_by_level(scope, self._gate.cohorts[scope])
        for is_borrowed, column, row in zip(by_level, self._levels, way, strict=False):
            is_same = column == row
            found |= is_borrowed & is_above & ~is_same
            is_above &= is_same
        return flags(found & (self._milli_of(scope) > 0))

    def _borrowed_by_level(self, scope: Scope, cohorts: Cohorts) -> list[Flags]:
        """By level of the tree: who runs on what the account there borrows."""
        if scope not in self._borrowed:
            milli = self._milli_of(scope)
            self._borrowed[scope] = Borrowed(cohorts, self._levels, milli, self._age)
        borrowed = self._borrowed[scope]
        borrowed.update(self._targeting.may_go, self._targeting.is_gone)
        return borrowed.by_level

    def _milli_of(self, scope: Scope) -> Ints:
        """By job, what it holds that counts under a limit."""
        if scope not in self._milli:
            snapshot, jobs = self._gate.snapshot, self._jobs
            holder, device, milli = held_milli(snapshot)
            (pool, model), devices = scope, snapshot.devices
            counted = np.ones(len(device), dtype=np.bool_)
            if pool != NONE:
                counted &= snapshot.nodes.pool[devices.node[device]] == pool
            if model != NONE:
                counted &= devices.model[device] == model
            by_id = np.argsort(jobs.id, kind="stable")
            wanted = snapshot.held.job[holder[counted]]
            at = np.minimum(np.searchsorted(jobs.id[by_id], wanted), max(0, len(by_id) - 1))
            is_live = jobs.id[by_id[at]] == wanted
            total = np.zeros(len(jobs), dtype=np.int64)
            np.add.at(total, by_id[at][is_live], milli[counted][is_live])
            self._milli[scope] = total
        return self._milli[scope]


def _levels(gate: Gate, account: Ints) -> list[Ints]:
    """By level from the top, the account of each job or the one above it there; -1 for none."""
    ways = {row: gate.tree.way_up(row)[::-1] for row in np.unique(account).tolist()}
    depth = max((len(way) for way in ways.values()), default=0)
    table = []
    for level in range(depth):
        at = {row: way[level] if level < len(way) else NONE for row, way in ways.items()}
        table.append(ints([at[row] for row in account.tolist()]))
    return table
