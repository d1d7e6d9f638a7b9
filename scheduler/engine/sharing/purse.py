"""What the budgets of accounts have left, in GPU-seconds and in money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scheduler.engine.sharing.tree import Tree
from scheduler.engine.snapshot import (
    ANY_AMOUNT,
    NONE,
    WHOLE_MILLI,
    Flags,
    Floats,
    Ints,
    Request,
    Snapshot,
    Waiting,
    flags,
    floats,
)
from scheduler.states import PRICED_WORDS, hours_words

_S_PER_HOUR = 3600
# Many jobs ask for as much, and few budgets have as much left.
_hours = lru_cache(4096)(hours_words)


@dataclass(frozen=True, slots=True)
class Bounds:
    """For how long a job holds its GPUs at most, and what that costs at most: what is left of its
    highest price, in the snapshot's units of money."""

    limit_s: float
    most_cost: float = np.inf


def bounds_of(jobs: Waiting, row: int) -> Bounds:
    """Of the job in this row."""
    return Bounds(int(jobs.time_limit_s[row]), float(jobs.most_cost[row]))


@dataclass(frozen=True, slots=True)
class Lack:
    """The account whose budget is too small; `facts` are plain JSON values."""

    account: int
    facts: Mapping[str, object]


class Purse:
    """What is left while jobs are admitted: it only gets less.

    A job is priced by the dearest GPU it might get, because its devices are not chosen yet; what it
    takes is priced by what it got. Money is in whole units of the snapshot, so that nothing of it
    is lost to rounding.
    """

    def __init__(self, snapshot: Snapshot, tree: Tree) -> None:
        accounts = snapshot.accounts
        self._snapshot = snapshot
        self._tree = tree
        self._left_s: list[float] = accounts.budget_gpu_s.tolist()
        self._left_money: list[float] = accounts.budget_money.tolist()
        self._has_money = bool(np.isfinite(accounts.budget_money).any())
        self.has_budgets = self._has_money or bool(np.isfinite(accounts.budget_gpu_s).any())
        self._price_of: dict[tuple[int, int, int], float] = {}
        self._list_of: list[int] | None = None
        if snapshot.price_list is not None and snapshot.own_prices is not None:
            self._list_of = snapshot.price_list.tolist()

    def list_of(self, account: int) -> int:
        """The row of the prices that an account pays by; NONE for the general ones."""
        return NONE if self._list_of is None or account == NONE else self._list_of[account]

    def _prices(self, row: int) -> Floats | None:
        """By model the prices of one list."""
        own = self._snapshot.own_prices
        return self._snapshot.prices if row == NONE or own is None else floats(own[row])

    def price(self, request: Request, account: int) -> float:
        """What a second of one of its GPUs costs the account at most; infinite if nobody knows."""
        whose = self.list_of(account)
        prices = self._prices(whose)
        if not self._has_money or prices is None:
            return 0.0
        asked = request.pool, request.model, whose
        if asked not in self._price_of:
            devices, nodes = self._snapshot.devices, self._snapshot.nodes
            here = np.unique(devices.model[nodes.pool[devices.node] == request.pool])
            fitting = here[self._snapshot.accepts()[request.model][here]]
            self._price_of[asked] = float(prices[fitting].max(initial=0.0))
        return self._price_of[asked]

    def pays(self, account: int, milli: int, bounds: Bounds, request: Request) -> bool:
        """Whether the account and all above it have left what so many milli-GPU take at worst."""
        if not self.has_budgets:
            return True
        cost_s = floats([worst_case_s(milli, bounds.limit_s)])
        price, most = floats([self.price(request, account)]), floats([bounds.most_cost])
        return bool(self.pay_for(account, cost_s, price, most)[0])

    def pay_for(self, account: int, cost_s: Floats, price: Floats, most: Floats) -> Flags:
        """For each of these costs in GPU-seconds, at a price each and `most` of money, whether it
        is paid for."""
        way_up = list(self._tree.way_up(account))
        left_s = min((self._left_s[row] for row in way_up), default=np.inf)
        is_paid = cost_s <= left_s
        if self._has_money:
            left = min((self._left_money[row] for row in way_up), default=np.inf)
            is_paid = is_paid & (_money(cost_s, price, most) <= left)
        return flags(is_paid)

    def shortage(self, account: int, milli: int, bounds: Bounds, request: Request) -> Lack | None:
        """The first budget on the way up that does not pay for so many milli-GPU."""
        cost_s, cost = self._worst(account, milli, bounds, request)
        for row in self._tree.way_up(account):
            if cost_s > self._left_s[row]:
                return Lack(row, _in_hours(cost_s, self._left_s[row]))
            if cost > self._left_money[row]:
                facts = self._in_money(cost, self._left_money[row])
                # Who may see why it waits may not see what it costs.
                asks = {"asks": PRICED_WORDS} if np.inf > cost == bounds.most_cost else {}
                return Lack(row, facts | asks)
        return None

    def take(self, account: int, models: Ints, milli: int, bounds: Bounds) -> None:
        """Count GPUs of these models, so much of each."""
        each_s = worst_case_s(milli, bounds.limit_s)
        prices = self._prices(self.list_of(account))
        cost = 0.0
        if self._has_money and prices is not None:
            each = floats(np.full(len(models), each_s))
            whole = float(_money(each, floats(prices[models])).sum())
            cost = min(whole, bounds.most_cost) if np.isfinite(whole) else whole
        for row in self._tree.way_up(account):
            self._left_s[row] -= len(models) * each_s
            self._left_money[row] -= cost

    def reserve(self, account: int, milli: int, bounds: Bounds, request: Request) -> None:
        """Count so many milli-GPU at what they cost at most."""
        cost_s, cost = self._worst(account, milli, bounds, request)
        for row in self._tree.way_up(account):
            self._left_s[row] -= cost_s
            self._left_money[row] -= cost

    def _worst(
        self, account: int, milli: int, bounds: Bounds, request: Request
    ) -> tuple[float, float]:
        """GPU-seconds and money, the latter as `_money` says it of many."""
        cost_s = worst_case_s(milli, bounds.limit_s)
        cost = cost_s * self.price(request, account) if cost_s > 0 else 0.0
        return cost_s, min(cost, bounds.most_cost) if cost < np.inf else cost

    def _in_money(self, cost: float, left: float) -> dict[str, object]:
        word, unit = self._snapshot.money
        asks = f"{cost / unit:.2f} {word}".strip()
        if not np.isfinite(cost):
            asks = "an amount nobody knows, because no price is set for its GPUs"
        amount = f"{max(0.0, left) / unit:.2f} {word}".strip()
        return {"asks": asks, "left": "money" if left == ANY_AMOUNT else amount}


def worst_case_s(milli: int, time_limit_s: float) -> float:
    """GPU-seconds that a job holds at most: all its GPUs for its whole time limit."""
    return milli / WHOLE_MILLI * time_limit_s


def _in_hours(cost_s: float, left_s: float) -> dict[str, object]:
    need = round(cost_s / _S_PER_HOUR, 2)
    have = round(max(0.0, left_s) / _S_PER_HOUR, 2)
    return {
        "need_gpu_hours": need,
        "have_gpu_hours": have,
        "asks": f"{_hours(float(cost_s))} GPU-hours",
        "left": f"{_hours(max(0.0, float(left_s)))} GPU-hours",
    }


def _money(cost_s: Floats, price: Floats, most: Floats | None = None) -> Floats:
    """Their product, and no more than `most` where a price is known; nothing costs nothing."""
    amounts = np.zeros(len(cost_s))
    np.multiply(cost_s, price, out=amounts, where=cost_s > 0)
    if most is not None:
        np.minimum(amounts, most, out=amounts, where=np.isfinite(amounts))
    return floats(amounts)
