"""What accounts may still hold of their limits, and what is left of licences, by time."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.board.licences import Licences
from scheduler.engine.sharing.holdings import Scope
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.sharing.tree import Tree, held_milli
from scheduler.engine.sharing.within import is_out_of_reach
from scheduler.engine.snapshot import NONE, WHOLE_MILLI, Floats, Ints, Request, floats, ints

# When how much of a limit comes free, the first now: less than nothing of one that is exceeded.
Supply: TypeAlias = tuple[tuple[float, int], ...]
# Each has to hold: of one of its supplies (row) so much is free.
Terms: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]
NO_TERMS: Terms = ()
NEVER: Terms = ((),)
_LAST = 2**62


class Allowance:
    """One supply while jobs are laid out: what a job takes comes back when it ends.

    Equals a line of as many devices as the limit allows (`line.py`) that forgets its holes: what is
    free before a later begin is not lent meanwhile, which is only pessimistic.
    """

    def __init__(self, supply: Supply) -> None:
        self._lots: list[tuple[float, int]] = []
        self._debt = 0
        for when_s, much in supply:
            self._give_back(when_s, much)

    def ready_s(self, need: int) -> float:
        """From when on so much is free; infinite for never."""
        found = 0
        for when_s, much in self._lots:
            found += much
            if found >= need:
                return when_s
        return float("inf")

    def take(self, need: int, start_s: float, end_s: float) -> None:
        """Hold so much from a start to an end, if need be more than there is."""
        at, left = bisect_right(self._lots, (start_s, _LAST)), need
        while left and self._lots:
            # What came free last, so that what idles stays together; then what is not back yet.
            at = max(0, at - 1)
            when_s, much = self._lots[at]
            if much > left:
                self._lots[at] = when_s, much - left
                left = 0
            else:
                del self._lots[at]
                left -= much
        self._debt += left
        self._give_back(end_s, need)

    def left(self) -> Supply:
        """When how much of it is free after those laid out, in order."""
        return tuple(self._lots)

    def _give_back(self, when_s: float, much: int) -> None:
        paid = min(self._debt, much)
        self._debt -= paid
        if much > paid and when_s < np.inf:
            insort(self._lots, (when_s, much - paid))


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """What is held, in the order of `account`, numbered so that all below one follow it."""

    account: Ints
    pool: Ints
    model: Ints
    much: Ints
    until_s: Floats

    @classmethod
    def of(cls, account: Ints, pool: Ints, model: Ints, much: Ints, until_s: Floats) -> _Held:
        """Rows in any order; those of no account, -1, are left out."""
        order = np.argsort(account, kind="stable")
        order = order[account[order] != NONE]
        return cls(*(column[order] for column in (account, pool, model, much, until_s)))

    def back(self, first: int, last: int, scope: Scope) -> Supply:
        """When how much comes back to the accounts from `first` until before `last`."""
        begin, end = np.searchsorted(self.account, [first, last]).tolist()
        counts = np.ones(end - begin, dtype=np.bool_)
        for column, asked in ((self.pool, scope[0]), (self.model, scope[1])):
            if asked != NONE:
                counts &= column[begin:end] == asked
        ends_s, at = np.unique(self.until_s[begin:end][counts], return_inverse=True)
        much = np.bincount(at, weights=self.much[begin:end][counts], minlength=len(ends_s))
        return tuple(zip(ends_s.tolist(), much.astype(np.int64).tolist(), strict=True))


class Allowances:
    """The supplies of all limits and licences that laid-out jobs meet, as the admission left them.

    `run_share`: by pool, which part of its declared time a job that holds something is taken to
    stay; who holds a licence stays to its limit. Of guarantees that are never lent it counts what
    is idle now as idle for ever.
    """

    def __init__(self, gate: Gate, licences: Licences, run_share: Floats) -> None:
        self.supplies: list[Supply] = []
        self._gate, self._licences, self._share = gate, licences, run_share
        self._row_of: dict[tuple[str, Scope, int], int] = {}
        self._terms: dict[tuple[int, int, int, int, int], Terms] = {}
        self._lends_not_all = {scope for scope, one in gate.cohorts.items() if any(one.keeps)}
        self._first, self._last = _preorder(gate.tree)
        self._devices, self._jobs = self._held()

    def terms(self, request: Request, account: int) -> Terms:
        """What has to be free for the account to start the request."""
        if account == NONE or not self._gate.is_limited:
            return self._of_licences(request)
        milli = self._gate.quota_milli(request)
        asked = request.pool, request.model, request.licences, milli, account
        if asked not in self._terms:
            caps = self._of_caps(account, milli)
            limits = self._of_limits(request, account, milli) + self._of_licences(request)
            self._terms[asked] = NEVER if caps is NEVER else caps + limits
        return self._terms[asked]

    def _of_licences(self, request: Request) -> Terms:
        if request.licences == NONE:
            return NO_TERMS
        need = self._licences.needs[request.licences]
        found = []
        for licence in np.flatnonzero(need).tolist():
            asked = "licence", (NONE, NONE), licence
            if asked not in self._row_of:
                self._row_of[asked] = len(self.supplies)
                self.supplies.append(self._licences.supply(licence))
            found.append(((self._row_of[asked], int(need[licence])),))
        return tuple(found)

    def _of_caps(self, account: int, milli: int) -> Terms:
        found = []
        for row in self._gate.tree.way_up(account):
            if NONE != self._gate.most_gpus[row] < milli / WHOLE_MILLI:
                return NEVER
            if self._gate.most_jobs[row] != NONE:
                free = self._gate.most_jobs[row] - self._gate.running[row]
                found.append(((self._row("jobs", (NONE, NONE), row, free), 1),))
        return tuple(found)

    def _of_limits(self, request: Request, account: int, milli: int) -> Terms:
        """As `Cohorts.shortage` asks them; that all is used which is there is left to the nodes."""
        way, concerned = self._gate.tree.way_up(account), self._gate.concerned(request)
        if is_out_of_reach(concerned, account, milli):
            return NEVER
        found: list[tuple[tuple[int, int], ...]] = []
        for scope, cohorts in concerned:
            for row in way:
                if (most := cohorts.maximum[row]) != NONE:
                    at = self._row("maximum", scope, row, most - cohorts.held[row])
                    found.append(((at, milli),))
                if row != way[-1] and (most := cohorts.borrow_limit[row]) != NONE:
                    free = cohorts.own[row] + most - cohorts.taken[row]
                    found.append(((self._row("borrow", scope, row, free), milli),))
            if scope in self._lends_not_all:
                own = [(scope, cohorts, row) for row in way if cohorts.own[row] > 0]
                rows = [self._row("own", s, row, c.own[row] - c.taken[row]) for s, c, row in own]
                found.append(tuple((at, milli) for at in rows))
        return tuple(dict.fromkeys(found))

    def _row(self, kind: str, scope: Scope, account: int, free: int) -> int:
        """The supply of a limit of an account: what is free now, and what its jobs give back."""
        asked = kind, scope, account
        if asked not in self._row_of:
            self._row_of[asked] = len(self.supplies)
            held = self._jobs if kind == "jobs" else self._devices
            back = held.back(self._first[account], self._last[account], scope)
            self.supplies.append(((self._gate.snapshot.now_s, free), *back))
        return self._row_of[asked]

    def _held(self) -> tuple[_Held, _Held]:
        """Devices in milli-GPU, and jobs: what runs, and what starts in this cycle."""
        snapshot, held, begun = self._gate.snapshot, self._gate.snapshot.held, self._gate.begun
        number, now_s = np.append(self._first, NONE), snapshot.now_s
        pool = snapshot.nodes.pool[held.node]
        until_s = now_s + np.maximum(held.until_s - now_s, 0.0) * self._share[pool]
        owner = number[held.account]
        new_pool = ints([one.pool for one in begun])
        new_owner = number[ints([one.account for one in begun])]
        new_until_s = now_s + floats([one.limit_s for one in begun]) * self._share[new_pool]
        holder, device, milli = held_milli(snapshot)
        sizes = [len(one.models) for one in begun]
        new_model = ints(np.concatenate([ints([]), *(one.models for one in begun)]))
        new_milli = np.repeat(ints([one.gpu_milli for one in begun]), sizes)
        devices = _Held.of(
            ints(np.append(owner[holder], np.repeat(new_owner, sizes))),
            ints(np.append(pool[holder], np.repeat(new_pool, sizes))),
            ints(np.append(snapshot.devices.model[device], new_model)),
            ints(np.append(milli, snapshot.weights()[new_model] * new_milli // WHOLE_MILLI)),
            floats(np.append(until_s[holder], np.repeat(new_until_s, sizes))),
        )
        _, first, job = np.unique(held.job, return_index=True, return_inverse=True)
        last_s = until_s[first]
        # A gang ends with its last share.
        np.maximum.at(last_s, job, until_s)
        anywhere = ints(np.full(len(first) + len(begun), NONE))
        one_each = ints(np.ones(len(anywhere)))
        owners = ints(np.append(owner[first], new_owner))
        ends_s = floats(np.append(last_s, new_until_s))
        return devices, _Held.of(owners, anywhere, anywhere, one_each, ends_s)


def _preorder(tree: Tree) -> tuple[Ints, Ints]:
    """By account its number, and the number after those of all below it."""
    size = tree.roll_up(ints(np.ones(len(tree.parent)))).tolist()
    first, following, free = list[int](), [0] * len(size), 0
    for row, parent in enumerate(tree.parent):
        at = free if parent == NONE else following[parent]
        if parent == NONE:
            free += size[row]
        else:
            following[parent] += size[row]
        first.append(at)
        following[row] = at + 1
    return ints(first), ints(np.array(first, dtype=np.int64) + ints(size))
