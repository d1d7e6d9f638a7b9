"""Guarantees, borrowing and lending in the tree of accounts, for one pool and model.

The siblings below one account are a *cohort*. What an account holds above its own guarantee it
borrows: from what its parent has not given to any child, from what its siblings may lend and do
not use, and, where the parent itself may borrow, from further up. The arithmetic is that of nested
cohorts in Kueue (keps/79-hierarchical-cohorts), with the guarantee of a parent counted with its
children's in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from scheduler.engine.sharing.tree import Tree
from scheduler.engine.snapshot import NONE, WHOLE_MILLI, Flags, Ints, Limits


class Bound(StrEnum):
    """Which limit keeps an account from holding more."""

    MAXIMUM = "maximum"
    BORROW = "borrow_limit"
    COHORT = "cohort"


@dataclass(frozen=True, slots=True)
class Shortage:
    """At which account (row) which limit is met; `held` and `limit` in milli-GPU."""

    account: int
    bound: Bound
    held: int
    limit: int


class Cohorts:
    """What each account holds and may hold of one pool and model, in milli-GPU.

    `own`: its guarantee without what those below it keep to themselves. `keeps`: the part of that
    which it never lends. `taken`: what it and those below use of `own`, beyond what those below
    keep. `held`: all they hold. `charged`: who was charged so far, in turn. `own - keeps`
    is what others may have of it; what an account takes above `own` it borrows from its parent.
    """

    def __init__(self, tree: Tree, limits: Limits, held: Ints, capacity: int) -> None:
        self.tree = tree
        size = len(tree.parent)
        given, self.borrow_limit, lend_limit, self.maximum = _by_account(limits, size)
        self.guaranteed: list[int] = _guarantees(tree, given, capacity)
        self.own: list[int] = [0] * size
        self.keeps: list[int] = [0] * size
        self.taken: list[int] = [0] * size
        self.held: list[int] = tree.roll_up(held).tolist()
        self.charged: list[int] = []
        self._borrowers: dict[int, list[tuple[int, int]]] = {}
        kept_below, taken_below = [0] * size, held.tolist()
        for row in range(size - 1, -1, -1):
            parent = tree.parent[row]
            self.own[row] = self.guaranteed[row] - kept_below[row]
            self.taken[row] = taken_below[row]
            if parent == NONE:
                continue
            lends = self.own[row] if lend_limit[row] == NONE else lend_limit[row]
            self.keeps[row] = max(0, self.own[row] - lends)
            kept_below[parent] += self.keeps[row] + kept_below[row]
            taken_below[parent] += max(0, self.taken[row] - self.keeps[row])
        # By account, whether any below keeps something to itself that is idle: as it was at first.
        used = zip(self.held, self.taken, self.guaranteed, self.own, strict=True)
        self.keeps_idle = [held - taken < all_ - own for held, taken, all_, own in used]

    def are_limited(self) -> Flags:
        """By account, whether it has a guarantee, also one given further down, or a limit."""
        own = np.array(self.guaranteed) > 0
        own |= np.array(self.borrow_limit) != NONE
        return np.asarray(own | (np.array(self.maximum) != NONE))

    def borrows(self, row: int) -> int:
        """What the account has beyond its own, from outside of it."""
        return max(0, self.taken[row] - self.own[row]) if self.tree.parent[row] != NONE else 0

    def lends(self, row: int) -> int:
        """What the account has of its own that others could use now."""
        if self.tree.parent[row] == NONE:
            return 0
        return max(0, self.own[row] - max(self.keeps[row], self.taken[row]))

    def shortage(self, account: int, milli: int) -> Shortage | None:
        """What keeps the account from holding so much more; None if nothing does.

        Within the guarantee of an account nobody above is asked whether anything is idle: what is
        lent comes back, by itself or by preemption. The limits of those above hold all the same.
        Who asks for nothing is short of nothing.
        """
        if not milli:
            return None
        need, is_own = milli, False
        for row in self.tree.way_up(account):
            most = self.maximum[row]
            if most != NONE and self.held[row] + milli > most:
                return Shortage(row, Bound.MAXIMUM, self.held[row], most)
            above = self.taken[row] + need - self.own[row]
            if self.tree.parent[row] == NONE:
                if above > 0 and not is_own:
                    return Shortage(row, Bound.COHORT, self.taken[row], self.own[row])
                return None
            if need and above > 0 and NONE != self.borrow_limit[row] < above:
                return Shortage(row, Bound.BORROW, self.borrows(row), self.borrow_limit[row])
            is_own |= above <= 0
            need = self._passed_on(row, need)
        return None

    def is_in_reach(self, account: int, milli: int) -> bool:
        """Whether so much could be had by the account if nobody held anything; limits apart."""
        need = milli
        for row in self.tree.way_up(account):
            if need <= self.own[row]:
                return True
            need -= min(need, self.keeps[row])
        return False

    def guarantor(self, account: int, milli: int) -> int:
        """Within whose guarantee so much more lies: the account, one above it, or -1 for nobody's.

        The root is apart: what is nobody's guarantee cannot be claimed back.
        """
        need = milli
        for row in self.tree.way_up(account)[:-1]:
            above = self.taken[row] + need - self.own[row]
            if above <= 0:
                return row
            if NONE != self.borrow_limit[row] < above:
                return NONE
            need = self._passed_on(row, need)
        return NONE

    def is_guaranteed(self, account: int, milli: int) -> bool:
        """Whether so much more lies within a guarantee."""
        return self.guarantor(account, milli) != NONE

    def charge(self, account: int, milli: int) -> None:
        """Count so much more, or less, as held by the account."""
        self._borrowers.clear()
        self.charged.append(account)
        passed = milli
        for row in self.tree.way_up(account):
            self.held[row] += milli
            on = self._passed_on(row, passed)
            self.taken[row] += passed
            passed = on

    def borrowers(self, account: int, count: int) -> list[tuple[int, int]]:
        """So many children of an account that borrow most, and how much, the most first."""
        found = self._borrowers.get(account)
        if found is None:
            pairs = ((row, self.borrows(row)) for row in self.tree.children(account))
            found = sorted((p for p in pairs if p[1]), key=lambda pair: (-pair[1], pair[0]))
            self._borrowers[account] = found
        return found[:count]

    def _passed_on(self, row: int, milli: int) -> int:
        """How much of a change of what the account takes its parent notices."""
        before = max(0, self.taken[row] - self.keeps[row])
        return max(0, self.taken[row] + milli - self.keeps[row]) - before


def _by_account(limits: Limits, size: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Guarantee, borrow limit, lend limit and maximum by account; -1 where no row sets one."""
    columns = []
    for column in (limits.guaranteed, limits.borrow_limit, limits.lend_limit, limits.maximum):
        values = np.full(size, NONE, dtype=np.int64)
        is_set: Flags = np.asarray(column != NONE)
        values[limits.account[is_set]] = column[is_set] * WHOLE_MILLI
        columns.append(values.tolist())
    return columns[0], columns[1], columns[2], columns[3]


def _guarantees(tree: Tree, given: list[int], capacity: int) -> list[int]:
    """By account: what is given, its children's together at least; the root's is all there is."""
    total = [0] * len(given)
    for row in range(len(given) - 1, -1, -1):
        parent = tree.parent[row]
        total[row] = max(total[row], given[row], capacity if parent == NONE else 0)
        if parent != NONE:
            total[parent] += total[row]
    return total


def whole_gpus(milli: int) -> int | float:
    """Milli-GPU in GPUs: whole ones as a whole number."""
    return milli // WHOLE_MILLI if milli % WHOLE_MILLI == 0 else milli / WHOLE_MILLI
