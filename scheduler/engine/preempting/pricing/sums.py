"""What room for one share costs on each node, kept up to date while jobs are stopped.

On a node, jobs go in the order of their price per GPU until the share fits: a prefix of a sorted
column. The order stays as it is; sums along it change only on nodes where somebody may go no more.
What a share needs is compared with the sums of all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.snapshot import Flags, Floats, Ints, flags, floats, ints, running_sum

# A job's row, what it costs to stop it, and what GPUs, cpus and memory that frees.
Exit: TypeAlias = tuple[int, float, float, float, float]

# Prices are whole thousandths, so that sums do not depend on the order of adding up.
_GRAIN = 1000.0
# Shares whose nodes are summed up one by one; beyond, all are at once.
_FEW = 32


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """What live jobs hold of nodes, sorted by node: the job's row, the node, what comes free.

    `span`: on how many nodes the job is. `freed`: GPUs that serve the request, cpus, memory. The
    shares of a node begin at `first[node]` and end before `first[node + 1]`.
    """

    job: Ints
    node: Ints
    span: Ints
    freed: tuple[Ints, ...]
    first: Ints


class Prices:
    """What it costs to stop jobs on each node, the cheapest per GPU first.

    `price`: of stopping the job, by share. While `left` nodes are wanted, a gang counts by the part
    of it that may be used.
    """

    def __init__(self, shares: Shares, price: Floats, left: int) -> None:
        cost = np.rint(price / np.minimum(shares.span, left) * _GRAIN)
        per_gpu = cost / np.maximum(shares.freed[0], 0.5)
        # Sorts are stable, so of equal ones the first goes first.
        order = np.lexsort((per_gpu, shares.node))
        self._job: Ints = ints(shares.job[order])
        self._node: Ints = shares.node
        self._first: Ints = shares.first
        # Rows: cost, then each resource; whole numbers all of them, which floats hold exactly.
        self._amounts = np.array([cost, *shares.freed], dtype=np.float64)[:, order]
        self._sums = np.zeros_like(self._amounts)
        self._may_go: Flags = flags(np.zeros(len(cost)))

    def exits(self) -> Iterator[Exit]:
        """Share by share, node after node, the cheapest per GPU first."""
        columns = [column.tolist() for column in (self._job, *self._amounts)]
        return zip(*columns, strict=True)

    def update(self, may_go: Flags) -> None:
        """Count only these jobs (rows); equals summing up all nodes anew."""
        chosen = flags(may_go[self._job])
        nodes = self._node[chosen != self._may_go]
        self._may_go = chosen
        if len(nodes) > _FEW:
            self._sums = running_sum(self._amounts * chosen, self._node)
            return
        for node in set(nodes.tolist()):
            here = slice(int(self._first[node]), int(self._first[node + 1]))
            np.cumsum(self._amounts[:, here] * chosen[here], axis=1, out=self._sums[:, here])

    def of_nodes(self, missing: Sequence[Ints]) -> Floats:
        """By node what room for one share costs, inf for never.

        `missing`: by resource and node, what the share needs beyond what is free.
        """
        last, is_never = self._last(missing)
        cost = np.concatenate([self._sums[0], [0.0]])[np.where(is_never, -1, last)]
        cost[is_never] = np.inf
        cost[np.maximum.reduce(missing) <= 0] = 0.0
        return floats(cost)

    def victims(self, missing: Sequence[Ints], node: int) -> Ints:
        """Whose going makes that room on one node, rows of jobs; nobody's if it is free."""
        if all(int(need[node]) <= 0 for need in missing):
            return ints([])
        here = slice(int(self._first[node]), int(self._first[node + 1]))
        wanted = np.array([need[node] for need in missing])
        enough = (self._sums[1:, here] >= wanted[:, None]).all(axis=0)
        upto = slice(here.start, here.start + int(enough.argmax()) + 1)
        return ints(self._job[upto][self._may_go[upto]])

    def _last(self, missing: Sequence[Ints]) -> tuple[Ints, Flags]:
        """By node the last share that has to go, and whether even all of them are not enough."""
        is_short = np.zeros(len(self._node), dtype=np.bool_)
        for need, sums in zip(missing, self._sums[1:], strict=True):
            if need.max(initial=0) > 0:
                is_short |= sums < need[self._node]
        so_far = np.concatenate([[0], np.cumsum(is_short)])
        begin, end = self._first[:-1], self._first[1:]
        # Sums never fall along a node, so those that are short come first.
        last = begin + so_far[end] - so_far[begin]
        return ints(last), flags(last >= end)
