"""May this account start that job: budget, caps and quota, with one reason each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from scheduler.engine.plan import Start
from scheduler.engine.shaping.sizes import least_size, sizes_of
from scheduler.engine.sharing.cohorts import Bound, Cohorts, Shortage, whole_gpus
from scheduler.engine.sharing.holdings import (
    Begun,
    Scope,
    cohorts_of,
    growths,
    jobs_held,
    models_kept,
)
from scheduler.engine.sharing.purse import Bounds, Purse, bounds_of
from scheduler.engine.sharing.rulers import find_rulers
from scheduler.engine.sharing.tree import Tree
from scheduler.engine.sharing.within import Limit, is_out_of_reach, shortage_within
from scheduler.engine.snapshot import (
    NONE,
    WHOLE_MILLI,
    Ints,
    Request,
    Snapshot,
    Waiting,
    classes_of,
    ints,
)
from scheduler.states import WaitReason

# The largest borrowers are named, not all.
_BORROWERS_NAMED = 5

Barrier: TypeAlias = tuple[Scope, Cohorts, Shortage]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an account may not start a job; `facts` are plain JSON values."""

    reason: WaitReason
    facts: Mapping[str, object]


class Gate:
    """What accounts hold, and may hold, while jobs are admitted: it only fills up.

    A limit of one model is asked for every model that a job might get, because its devices are not
    chosen yet, but not whether there is enough of that one; what it takes is counted where it lies.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        accounts = snapshot.accounts
        self.snapshot = snapshot
        self.tree = Tree(accounts.parent)
        self.cohorts: dict[Scope, Cohorts] = cohorts_of(snapshot, self.tree)
        self.running: list[int] = self.tree.roll_up(jobs_held(snapshot)).tolist()
        self.most_gpus: list[int] = accounts.max_gpus_per_job.tolist()
        self.most_jobs: list[int] = accounts.max_running.tolist()
        self.purse = Purse(snapshot, self.tree)
        caps = np.array([accounts.max_gpus_per_job, accounts.max_running])
        self._has_caps = bool((caps != NONE).any())
        self.has_budgets = self.purse.has_budgets
        self.is_limited = bool(self.cohorts) or self._has_caps
        self.is_open = not (self.is_limited or self.has_budgets)
        self.joins_pools = self._has_caps or any(pool == NONE for pool, _ in self.cohorts)
        self.begun: list[Begun] = []
        self._accepts = snapshot.accepts()
        self._takes_several: list[bool] = (self._accepts.sum(axis=1) > 1).tolist()
        self.weights: list[int] = snapshot.weights().tolist()
        nodes = snapshot.nodes
        largest = np.zeros(len(snapshot.pools), dtype=np.int64)
        on_node = np.bincount(snapshot.devices.node, minlength=len(nodes.id))
        np.maximum.at(largest, nodes.pool, on_node)
        self._largest_node: list[int] = largest.tolist()
        self.ruled_by: Ints = find_rulers(snapshot, self.tree, self.cohorts, self.purse)
        # What was asked since something started.
        self._answers: dict[tuple[int, int, int, int], Refusal | None] = {}
        self._concerned: dict[tuple[int, int], list[tuple[Scope, Cohorts]]] = {}
        self._device_order = np.argsort(snapshot.devices.id)

    def bars(self, request: Request, account: int) -> bool:
        """Whether a cap or a limit keeps the account from starting the job now, budgets aside."""
        if self.is_open or account == NONE:
            return False
        return self._barrier(request, account, self.quota_milli(request)) is not None

    def sized(self, request: Request, account: int, bounds: Bounds) -> Request:
        """An elastic request with no more nodes than the account may start; others as they are."""
        if self.is_open or account == NONE or not request.nodes_min:
            return request
        for nodes in sizes_of(self.snapshot, request, request.nodes):
            milli = self._milli(request, nodes)
            if not self.purse.pays(account, milli, bounds, request):
                continue
            if self._barrier(request, account, self._weighed(request, milli)) is None:
                return replace(request, nodes=nodes)
        return request

    def may_grow(
        self, request: Request, account: int, was: int, nodes: int, bounds: Bounds
    ) -> bool:
        """Whether a job that the account runs on `was` nodes may go on with this many."""
        if self.is_open or account == NONE:
            return True
        milli = self._milli(request, nodes)
        more = self._weighed(request, self._milli(request, nodes - was))
        gpus = self._weighed(request, milli) / WHOLE_MILLI
        if any(NONE != self.most_gpus[row] < gpus for row in self.tree.way_up(account)):
            return False
        if any(self.shortage(one, request, account, more) for one in self.concerned(request)):
            return False
        # What it had left is given back as it stops, and what it takes again is reserved anew.
        return self.purse.pays(account, milli, bounds, request)

    def grow(self, request: Request, account: int, was: int, nodes: int, bounds: Bounds) -> None:
        """Count what `may_grow` allows, as far as it looks."""
        if not self.is_open and account != NONE:
            more = self._weighed(request, self._milli(request, nodes - was))
            for _, cohorts in self.concerned(request):
                cohorts.charge(account, more)
            self.purse.reserve(account, self._milli(request, nodes), bounds, request)

    def least_milli(self, request: Request) -> int:
        """Milli-GPU that a job takes at least, each device as one: what budgets count."""
        return self._milli(request, least_size(self.snapshot, request))

    def quota_milli(self, request: Request) -> int:
        """The same with parts of cards as what they are of them: what quotas and caps count."""
        return self._weighed(request, self.least_milli(request))

    def _weighed(self, request: Request, milli: int) -> int:
        """Of several models the largest counts, until it is known which it gets."""
        return milli * self.weights[request.model] // WHOLE_MILLI

    def _milli(self, request: Request, nodes: int) -> int:
        """With so many nodes. Who shares with nobody takes all of a node: the pool's largest, as
        nobody knows yet which it will be."""
        per_node = request.gpus
        if request.is_exclusive:
            per_node = self._largest_node[request.pool]
        return (nodes * per_node + request.part_gpus) * request.gpu_milli

    def is_paid(self, request: Request, account: int, bounds: Bounds) -> bool:
        """Whether its worst case, all GPUs for the whole time limit or what its highest price pays
        for, is within every budget."""
        return self.purse.pays(account, self.least_milli(request), bounds, request)

    def over_budget(self, request: Request, account: int, bounds: Bounds) -> Refusal | None:
        """Which budget its worst case is more than, with what it needs and what is left."""
        if not self.has_budgets:
            return None
        milli = self.least_milli(request)
        if (found := self.purse.shortage(account, milli, bounds, request)) is None:
            return None
        facts = {"account": self.name_of(found.account), **found.facts}
        return Refusal(WaitReason.BUDGET_EXHAUSTED, facts)

    def over_quota(self, request: Request, account: int) -> Refusal | None:
        """Which cap on its shape or which limit on what accounts hold is in the way, if any."""
        milli = self.quota_milli(request)
        asked = (account, request.pool, request.model, milli)
        if asked not in self._answers:
            barrier = self._barrier(request, account, milli)
            if barrier is not None and not isinstance(barrier, Refusal):
                barrier = self._over_limit(*barrier, account, milli)
                if is_out_of_reach(self.concerned(request), account, milli):
                    barrier = Refusal(barrier.reason, {**barrier.facts, "is_out_of_reach": True})
            self._answers[asked] = barrier
        return self._answers[asked]

    def _barrier(self, request: Request, account: int, milli: int) -> Barrier | Refusal | None:
        """The first hard one, else the first other one; without facts, which cost time."""
        if self._has_caps and (found := self._over_cap(account, milli)):
            return found
        borrow: Barrier | None = None
        for scope, cohorts in self.concerned(request):
            if (shortage := self.shortage((scope, cohorts), request, account, milli)) is None:
                continue
            if shortage.bound is Bound.MAXIMUM:
                return scope, cohorts, shortage
            borrow = borrow or (scope, cohorts, shortage)
        return borrow

    def is_guaranteed(self, request: Request, account: int) -> bool:
        """Whether the request is the account's own by some limit, so that it can be claimed."""
        milli, concerned = self.quota_milli(request), self.concerned(request)
        return any(cohorts.is_guaranteed(account, milli) for _, cohorts in concerned)

    def charge(self, request: Request, account: int, bounds: Bounds, start: Start) -> None:
        """Count a job that starts, with the devices it got."""
        if not self.is_open and account != NONE:
            ids = ints([device for placed in start.placements for device in placed.devices])
            devices, order = self.snapshot.devices, self._device_order
            rows = order[np.searchsorted(devices.id, ids, sorter=order)]
            self._count(request, account, bounds, ints(devices.model[rows]))

    def keep_for(self, claimants: Waiting) -> None:
        """Count what is kept for `claimants`, and for who grows: it is as good as theirs."""
        if self.is_open:
            return
        classes, account = classes_of(claimants), claimants.account
        for row in np.flatnonzero(account != NONE).tolist():
            request, bounds = classes.requests[classes.of_job[row]], bounds_of(claimants, row)
            models = models_kept(self.snapshot, int(claimants.id[row]))
            self._count(request, int(account[row]), bounds, models)
        for one in growths(self.snapshot, claimants):
            self._enter(one.account, one.pool, one.models, WHOLE_MILLI, Bounds(one.limit_s))

    def _count(self, request: Request, account: int, bounds: Bounds, models: Ints) -> None:
        """Enter a job with the models of its devices."""
        milli, limit_s = request.gpu_milli, bounds.limit_s
        self._enter(account, request.pool, models, milli, bounds)
        self.begun.append(Begun(account, request.pool, models, milli, limit_s))
        for row in self.tree.way_up(account):
            self.running[row] += 1

    def _enter(self, account: int, pool: int, models: Ints, gpu_milli: int, bounds: Bounds) -> None:
        """Count devices of a pool by their models, so much of each."""
        self._answers.clear()
        self.purse.take(account, models, gpu_milli, bounds)
        for model, count in enumerate(np.bincount(models).tolist()):
            for (limited_pool, limited), cohorts in self.cohorts.items():
                if count and limited_pool in (NONE, pool) and limited in (NONE, model):
                    milli = count * gpu_milli * self.weights[model] // WHOLE_MILLI
                    cohorts.charge(account, milli)

    def concerned(self, request: Request) -> list[Limit]:
        """The limits that a request may fall under."""
        pool, model = asked = request.pool, request.model
        if asked not in self._concerned:
            self._concerned[asked] = [
                (scope, cohorts)
                for scope, cohorts in self.cohorts.items()
                if scope[0] in (NONE, pool) and (scope[1] == NONE or self._accepts[model, scope[1]])
            ]
        return self._concerned[asked]

    def shortage(self, limit: Limit, request: Request, account: int, milli: int) -> Shortage | None:
        """What of the limit keeps the account from holding so much more for the request."""
        several = self._takes_several[request.model]
        return shortage_within(limit, self.concerned(request), several, account, milli)

    def _over_cap(self, account: int, milli: int) -> Refusal | None:
        for row in self.tree.way_up(account):
            most = self.most_gpus[row]
            if NONE != most < milli / WHOLE_MILLI:
                facts = {"cap": "GPUs per job", "used": 0, "gpus": whole_gpus(milli)}
                return self._capped(row, most, facts)
            most = self.most_jobs[row]
            if NONE != most < self.running[row] + 1:
                facts = {"cap": "running jobs", "used": self.running[row], "gpus": 1}
                return self._capped(row, most, facts)
        return None

    def _capped(self, row: int, limit: int, facts: dict[str, object]) -> Refusal:
        who = {"account": self.name_of(row), "limit": limit, **facts}
        return Refusal(WaitReason.QUOTA_HARD, who)

    def _over_limit(
        self, scope: Scope, cohorts: Cohorts, found: Shortage, account: int, milli: int
    ) -> Refusal:
        """The refusal in words and figures: who holds, may hold and wants what, who borrows it."""
        is_hard = found.bound is Bound.MAXIMUM
        # Who borrows the account's own: at a limit of an account its children, else its siblings.
        among = self.tree.way_up(account)[-1] if found.bound is Bound.COHORT else found.account
        facts: dict[str, object] = {
            "account": self.name_of(found.account),
            "cap": "GPUs" if is_hard else "borrowed GPUs",
            "of": self._scope_words(scope),
            "used": whole_gpus(found.held),
            "limit": whole_gpus(found.limit),
            "gpus": whole_gpus(milli),
            "bound": str(found.bound),
            "borrowers": [
                {"account": self.name_of(row), "gpus": whole_gpus(borrowed)}
                for row, borrowed in cohorts.borrowers(among, _BORROWERS_NAMED)
            ],
        }
        reason = WaitReason.QUOTA_HARD if is_hard else WaitReason.QUOTA_BORROW_LIMIT
        return Refusal(reason, facts)

    def _scope_words(self, scope: Scope) -> str:
        pool = f"pool {self.snapshot.pools[scope[0]]}" if scope[0] != NONE else "all pools"
        return pool if scope[1] == NONE else f"{self.snapshot.models[scope[1]]} in {pool}"

    def name_of(self, row: int) -> str:
        """What the account is called."""
        names = self.snapshot.account_names
        return names[row] if row < len(names) else f"account {row}"
