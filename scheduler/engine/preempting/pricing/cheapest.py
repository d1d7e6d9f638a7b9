"""The one node where room costs least, found without pricing all of them.

What the GPUs alone cost on a node is never more than what all of a share costs there. Nodes are
kept sorted by that, and looked at in full from the cheapest on, until the next one's GPUs alone
cost more than the best found (the threshold of Fagin, Lotem and Naor, PODS'01, for one list).
Usually that is the first or second node. After a start only the nodes are entered anew where
somebody came, or where others may go.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.preempting.pricing.sums import Exit, Prices, Shares
from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, Request, flags, ints

# After so many nodes in vain, columns are faster.
_MOST_LOOKS = 64
# Beyond so many changed nodes everything is sorted anew.
_MANY = 64

# GPUs, cpus and memory.
Need: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A node, and whose going (rows of jobs) makes room there."""

    node: int
    victims: list[int]


class GaveUp(Exception):
    """Too many nodes would have to be looked at one by one."""


class Cheapest:
    """Nodes for one share of some model, as jobs come and go.

    `shares` and `prices` are those of the model, the latter for one node.
    """

    def __init__(self, board: Board, model: int, shares: Shares, prices: Prices) -> None:
        self._board = board
        self._prices = prices
        self._free = (board.free_gpus[model], board.cpus_free, board.memory_free_mib)
        self._changes = board.changes.copy()
        self._may_go: Flags = flags([])
        self._can_go: list[bool] = []
        # By node who could go, the cheapest first; by job its nodes.
        self._exits: dict[int, list[Exit]] = {}
        self._nodes: dict[int, list[int]] = {}
        for node, one in zip(shares.node.tolist(), prices.exits(), strict=True):
            self._exits.setdefault(node, []).append(one)
            self._nodes.setdefault(one[0], []).append(node)
        self._ranked: dict[tuple[int, int], Ranking] = {}

    def update(self, may_go: Flags) -> None:
        """Count only these jobs (rows)."""
        nodes = set(np.flatnonzero(self._board.changes != self._changes).tolist())
        if len(self._may_go) != len(may_go):
            jobs, self._ranked = list[int](), {}
            self._may_go, self._can_go = may_go.copy(), may_go.tolist()
        else:
            jobs = np.flatnonzero(may_go != self._may_go).tolist()
        if not jobs and not nodes:
            return
        for job in jobs:
            self._can_go[job] = not self._can_go[job]
            nodes.update(self._nodes.get(job, ()))
        self._may_go[jobs] = may_go[jobs]
        self._changes[list(nodes)] = self._board.changes[list(nodes)]
        if len(nodes) > _MANY:
            self._ranked = {}
        for (_, gpus), ranking in self._ranked.items():
            for node in nodes & ranking.nodes:
                price = self._price(node, (gpus, 0, 0))
                ranking.enter(node, np.inf if price is None else price[0])

    def find(self, shape: Request, is_open: Flags) -> Found | None:
        """The first of the cheapest open nodes, None if there is none. Raises `GaveUp`."""
        need = shape.gpus, shape.cpus, shape.memory_mib
        best: tuple[float, int] = (np.inf, NONE)
        victims, looks = list[int](), 0
        for entry in self._ranking(shape.pool, shape.gpus).order:
            if entry > best:
                break
            node = entry[1]
            looks += 1
            if looks > _MOST_LOOKS:
                raise GaveUp
            if not is_open[node] or (found := self._price(node, need)) is None:
                continue
            if (found[0], node) < best:
                best, victims = (found[0], node), found[1]
        return None if best[1] == NONE else Found(best[1], victims)

    def _price(self, node: int, need: Need) -> tuple[float, list[int]] | None:
        """What room for so much costs there and who has to go for it; None for never."""
        gpus, cpus, mib = (float(amount) for amount in need)
        if not self._board.is_closed[node]:
            free_gpus, free_cpus, free_mib = self._free
            gpus, cpus = gpus - float(free_gpus[node]), cpus - float(free_cpus[node])
            mib -= float(free_mib[node])
        price, victims = 0.0, list[int]()
        if gpus <= 0 and cpus <= 0 and mib <= 0:
            return price, victims
        for job, cost, frees_gpus, frees_cpus, frees_mib in self._exits.get(node, ()):
            if not self._can_go[job]:
                continue
            price += cost
            victims.append(job)
            gpus, cpus, mib = gpus - frees_gpus, cpus - frees_cpus, mib - frees_mib
            if gpus <= 0 and cpus <= 0 and mib <= 0:
                return price, victims
        return None

    def _ranking(self, pool: int, gpus: int) -> Ranking:
        if (pool, gpus) not in self._ranked:
            self._prices.update(self._may_go)
            nothing = np.zeros_like(self._changes)
            free = np.where(self._board.is_closed, 0, self._free[0])
            cost = self._prices.of_nodes([ints(gpus - free), nothing, nothing])
            self._ranked[pool, gpus] = Ranking(np.flatnonzero(self._board.in_pool[pool]), cost)
        return self._ranked[pool, gpus]


class Ranking:
    """These `nodes` by their price, then by number, those where it is infinite left out."""

    def __init__(self, nodes: Ints, price: Floats) -> None:
        self.nodes = set(nodes.tolist())
        self._price: list[float] = price.tolist()
        self.order = sorted((self._price[n], n) for n in nodes[np.isfinite(price[nodes])].tolist())

    def enter(self, node: int, price: float) -> None:
        """The node's price is this from now on."""
        before, self._price[node] = self._price[node], price
        if before == price:
            return
        if before < np.inf:
            del self.order[bisect_left(self.order, (before, node))]
        if price < np.inf:
            insort(self.order, (price, node))
