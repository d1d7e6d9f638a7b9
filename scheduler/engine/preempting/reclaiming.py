"""What owners lent and take back: which live jobs run on it.

An account that holds more than its own borrows the rest, and of its jobs the newest that may be
stopped are what runs on that, until they add up to what it borrows. A job within the guarantee of
an account takes back from those outside of that account, whatever their tier: it was lent on that
condition. Jobs of nobody hold what is nobody's. The vocabulary and order are those of Kueue
(cohorts, reclaim) with the newest first.
"""

from __future__ import annotations

import numpy as np

from scheduler.engine.preempting.targeting import Targeting
from scheduler.engine.sharing.cohorts import Cohorts
from scheduler.engine.sharing.holdings import Scope
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.sharing.tree import held_milli
from scheduler.engine.snapshot import NONE, Flags, Ints, Request, flags, ints, running_sum


class Reclaiming:
    """Rows are those of `Running`. What is borrowed is worked out anew after every stop."""

    def __init__(self, gate: Gate, targeting: Targeting) -> None:
        self._gate = gate
        self._targeting = targeting
        self._jobs = targeting.running.jobs
        self._levels = _levels(gate, self._jobs.account)
        self._milli: dict[Scope, Ints] = {}
        self._borrowed: dict[Scope, list[Flags]] = {}
        self._gone = -1

    def may_claim(self, account: int) -> bool:
        """Whether the account has any guarantee left, and somebody outside borrows."""
        if account == NONE:
            return False
        return any(
            (owner := cohorts.guarantor(account, 1)) != NONE
            and bool(self._takers(scope, cohorts, owner).any())
            for scope, cohorts in self._gate.cohorts.items()
        )

    def find(self, request: Request, account: int) -> tuple[int, Flags] | None:
        """The account whose guarantee the request is within, and who may go for it."""
        milli = self._gate.least_milli(request)
        for scope, cohorts in self._gate.concerned(request):
            owner = NONE if account == NONE else cohorts.guarantor(account, milli)
            if owner != NONE:
                takers = self._takers(scope, cohorts, owner)
                if takers.any():
                    return owner, takers
        return None

    def _takers(self, scope: Scope, cohorts: Cohorts, owner: int) -> Flags:
        """Who runs on what is borrowed by accounts neither above the owner nor below it."""
        way = self._gate.tree.way_up(owner)[::-1]
        depth = len(way) - 1
        found = (self._jobs.account == NONE) & self._targeting.may_go
        for level, is_borrowed in enumerate(self._borrowed_by_level(scope, cohorts)):
            if level <= depth:
                found |= is_borrowed & (self._levels[level] != way[level])
            else:
                found |= is_borrowed & (self._levels[depth] != owner)
        return flags(found & (self._milli_of(scope) > 0))

    def _borrowed_by_level(self, scope: Scope, cohorts: Cohorts) -> list[Flags]:
        """By level of the tree: who runs on what the account there borrows."""
        gone = int(np.count_nonzero(self._targeting.is_gone))
        if gone != self._gone:
            self._gone, self._borrowed = gone, {}
        if scope not in self._borrowed:
            borrows = ints([*(cohorts.borrows(row) for row in range(len(cohorts.own))), 0])
            milli = self._milli_of(scope)
            self._borrowed[scope] = [self._newest(level, borrows, milli) for level in self._levels]
        return self._borrowed[scope]

    def _newest(self, account: Ints, borrows: Ints, milli: Ints) -> Flags:
        """The newest jobs of each account that add up to what it still borrows."""
        targeting = self._targeting
        left = borrows.copy()
        np.subtract.at(left, account[targeting.is_gone], milli[targeting.is_gone])
        rows = np.flatnonzero(targeting.may_go & (account != NONE) & (milli > 0))
        ran_s = targeting.running.ran_s[rows]
        rows = rows[np.lexsort((-self._jobs.id[rows], ran_s, account[rows]))]
        before = running_sum(milli[rows], account[rows]) - milli[rows]
        chosen = np.zeros(len(account), dtype=np.bool_)
        chosen[rows[before < left[account[rows]]]] = True
        return flags(chosen)

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
