"""What owners lent and take back: which live jobs run on it.

Who borrows, and which of his jobs run on that, is told in `borrowing.py`. A job within the
guarantee of an account takes back from those outside of that account, whatever their tier: it was
lent on that condition. Where the two part in the tree, the other side has to borrow: within its
guarantee a team keeps what it runs. Jobs of nobody hold what is nobody's. The vocabulary and order
are those of Kueue (cohorts, reclaim) with the newest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.preempting.lending.borrowing import Borrowed
from scheduler.engine.preempting.targeting import Targeting
from scheduler.engine.sharing.holdings import Scope
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.sharing.tree import held_milli
from scheduler.engine.snapshot import NONE, Flags, Ints, Request, flags, ints

# Beyond so many changes all jobs are looked at anew.
_MANY_NEWS = 1000

# Pool and model, and the accounts from the top down to the owner: the way on which others part from
# it. An owner that borrows nothing has none of those who may go, and is told by -1.
Side: TypeAlias = tuple[Scope, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """What an owner may take back: from which side, and the jobs (rows of `Running`) there."""

    owner: int
    side: Side
    takers: Flags


class Takers:
    """Who may go for the owners of one side, kept up to date: `may_go` by job, `count` of them.

    Where a job's account and the owner's part in the tree, the job's side has to borrow.
    """

    def __init__(
        self, borrowed: Borrowed, levels: list[Ints], way: tuple[int, ...], nobodys: Flags
    ) -> None:
        self._borrowed = borrowed
        self._nobodys = nobodys
        # By job, the level at which it parts from the owner; -1 if it is the owner's own.
        self._parts_at: Ints = ints(np.full(len(nobodys), NONE))
        is_with = np.ones(len(nobodys), dtype=np.bool_)
        for level, (column, row) in enumerate(zip(levels, way, strict=False)):
            is_same = column == row
            self._parts_at[is_with & ~is_same] = level
            is_with &= is_same
        self._has_nobodys = bool(nobodys.any())
        self._heard = self._departures = NONE
        self.may_go: Flags = flags(np.zeros(len(nobodys)))
        self.count = 0
        self._begin()

    def update(self, targeting: Targeting) -> None:
        """As things are now."""
        news = self._borrowed.news
        if len(news) - self._heard > _MANY_NEWS:
            self._begin()
        for level, job in news[self._heard :]:
            if self._parts_at[job] == level:
                self.may_go[job] = self._borrowed.by_level[level][job]
        changed = len(news) > self._heard
        self._heard = len(news)
        if self._departures != targeting.departures and self._has_nobodys:
            self.may_go[self._nobodys] = targeting.may_go[self._nobodys]
            changed = True
        self._departures = targeting.departures
        if changed:
            self.count = int(np.count_nonzero(self.may_go))

    def _begin(self) -> None:
        self.may_go = flags(np.zeros(len(self._nobodys)))
        for level, found in enumerate(self._borrowed.by_level):
            here = self._parts_at == level
            self.may_go[here] = flags(found)[here]
        self.count = int(np.count_nonzero(self.may_go))
        self._departures, self._heard = NONE, len(self._borrowed.news)


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
        # How many had left and had been charged when that was last brought up to date.
        self._moment: dict[Scope, tuple[int, int]] = {}
        self._found: dict[Side, Takers] = {}

    def may_claim(self, account: int) -> bool:
        """Whether the account has any guarantee left, and somebody outside borrows."""
        if account == NONE:
            return False
        return any(
            (owner := cohorts.guarantor(account, 1)) != NONE
            and self._takers(self._side(scope, owner)).count > 0
            for scope, cohorts in self._gate.cohorts.items()
        )

    def find(self, request: Request, account: int) -> Iterator[Claim]:
        """Within whose guarantees the request is, and who may go for it; limit by limit."""
        milli = self._gate.quota_milli(request)
        for scope, cohorts in self._gate.concerned(request):
            owner = NONE if account == NONE else cohorts.guarantor(account, milli)
            if owner != NONE:
                side = self._side(scope, owner)
                takers = self._takers(side)
                if takers.count:
                    yield Claim(owner, side, takers.may_go)

    def _side(self, scope: Scope, owner: int) -> Side:
        """Whom the owner takes from: all who hold no more than their own take from the same."""
        cohorts, way = self._gate.cohorts[scope], self._gate.tree.way_up(owner)[::-1]
        return scope, (*way[:-1], owner if cohorts.borrows(owner) else NONE)

    def _takers(self, side: Side) -> Takers:
        """Who runs on what is borrowed by accounts neither above the owner nor below it."""
        scope, way = side
        if scope not in self._borrowed:
            cohorts, milli = self._gate.cohorts[scope], self._milli_of(scope)
            self._borrowed[scope] = Borrowed(cohorts, self._levels, milli, self._age)
        borrowed, targeting = self._borrowed[scope], self._targeting
        moment = targeting.departures, len(self._gate.cohorts[scope].charged)
        if self._moment.get(scope) != moment:
            borrowed.update(targeting.may_go, targeting.is_gone)
            self._moment[scope] = moment
        takers = self._found.get(side)
        if takers is None:
            nobodys = flags((self._jobs.account == NONE) & (self._milli_of(scope) > 0))
            takers = self._found[side] = Takers(borrowed, self._levels, way, nobodys)
        takers.update(targeting)
        return takers

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
