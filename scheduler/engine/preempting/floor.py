"""Nodes with the jobs on them as counts, for trying out who has to move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Seeker
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.snapshot import (
    NONE,
    Flags,
    Floats,
    Ints,
    Request,
    Snapshot,
    flags,
    floats,
    ints,
)


@dataclass(slots=True)
class Resident:
    """A job on the floor: where, as (node row, GPUs), what moving it costs, and its tier."""

    shares: tuple[tuple[int, int], ...]
    cpus: int
    memory_mib: int
    gpus: int
    cost: float
    tier: int


@dataclass(frozen=True, slots=True, eq=False)
class Clearances:
    """By node the cheapest jobs to move for so many GPUs: what that costs, inf for never, and the
    cpus and memory they give back. `as_of`: how often the node had been changed by then.
    """

    as_of: Ints
    cost: Floats
    cpus: Ints
    memory_mib: Ints
    jobs: list[set[int]]

    @classmethod
    def unknown(cls, size: int) -> Self:
        """Before any node was looked at."""
        cost, zeros = floats(np.full(size, np.inf)), np.zeros(size, dtype=np.int64)
        never = ints(np.full(size, NONE))
        return cls(never, cost, zeros, zeros.copy(), [set() for _ in range(size)])


class Floor:
    """Free GPUs, cpus and memory by node, and who could be moved off it.

    Counts only: devices are picked on the board once it is known who goes. A job that is there
    until some moment leaves alone what begins to be kept before that. Who is `fixed` is not moved,
    and neither is who is `bound`, who may still shrink.
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        self.gpus, self.cpus, self.memory_mib = (
            column.copy() for column in board.free_for_others(NONE)
        )
        self.residents: dict[int, Resident] = {}
        self.fixed: set[int] = set()
        self.bound: set[int] = set()
        self._on_node: dict[int, set[int]] = {}
        self._whole: Ints = board.offered_gpus[NONE]
        self._capable: dict[tuple[Request, int], Ints] = {}
        # How often each node was changed, and what clearing it costs as of then.
        self._changes: Ints = np.zeros(len(self.gpus), dtype=np.int64)
        self._clearances: dict[tuple[int, int, int], Clearances] = {}

    def admit(self, job: int, resident: Resident) -> None:
        """The job stands on its nodes; what it holds is taken already."""
        self.residents[job] = resident
        for node, _ in resident.shares:
            self._on_node.setdefault(node, set()).add(job)
            self._changes[node] += 1

    def put(self, job: int, resident: Resident) -> None:
        """The job takes its shares of what is free."""
        self._charge(resident, -1)
        self.admit(job, resident)

    def take_off(self, job: int) -> Resident:
        """The job leaves and gives back what it holds."""
        resident = self.residents.pop(job)
        for node, _ in resident.shares:
            self._on_node[node].discard(job)
            self._changes[node] += 1
        self._charge(resident, 1)
        return resident

    def holds(self, resident: Resident) -> bool:
        """Whether its old nodes have room for it."""
        return all(
            bool(self.gpus[node] >= gpus)
            and bool(self.cpus[node] >= resident.cpus)
            and bool(self.memory_mib[node] >= resident.memory_mib)
            for node, gpus in resident.shares
        )

    def gpus_by_pool(self) -> list[int]:
        """GPUs that are free or held by those on the floor."""
        board, gpus = self.board, self.gpus.copy()
        for resident in self.residents.values():
            for node, count in resident.shares:
                gpus[node] += count
        pools, size = board.snapshot.nodes.pool, len(board.snapshot.pools)
        return [int(count) for count in np.bincount(pools, weights=gpus, minlength=size)]

    def fits(self, shape: Request, rows: Ints, without: Resident | None = None) -> Flags:
        """Which of these nodes have room for one share now, or once who is there has left."""
        gpus, cpus, memory_mib = self.gpus[rows], self.cpus[rows], self.memory_mib[rows]
        if without is not None:
            gpus = gpus + without.shares[0][1]
            cpus, memory_mib = cpus + without.cpus, memory_mib + without.memory_mib
        return flags((gpus >= shape.gpus) & (cpus >= shape.cpus) & (memory_mib >= shape.memory_mib))

    def find(self, request: Request, until_s: float) -> list[tuple[int, int]] | None:
        """Where all shares fit now, as (node, GPUs): tightest first, whole nodes last."""
        shares: list[tuple[int, int]] = []
        for shape in request.shapes():
            rows = self.capable(shape, until_s)
            fits = rows[self.fits(shape, rows)]
            if shares:
                fits = fits[~np.isin(fits, [node for node, _ in shares])]
            if len(fits) < shape.nodes:
                return None
            free = self.gpus[fits]
            breaks_whole = (free == self._whole[fits]) & (free > shape.gpus)
            best = fits[np.lexsort((fits, free, breaks_whole))[: shape.nodes]]
            shares += [(node, shape.gpus) for node in sorted(best.tolist())]
        return shares

    def cheapest_moves(
        self, request: Request, least: int, tier: int, until_s: float
    ) -> set[int] | None:
        """Which jobs, each smaller than `least` GPUs and of no higher tier, to move so that all
        shares fit; None if none.

        Node by node the cheapest set that frees enough; the nodes where that costs least.
        """
        moves: set[int] = set()
        taken: list[int] = []
        for shape in request.shapes():
            rows, table = self.capable(shape, until_s), self._cleared(shape.gpus, least, tier)
            fits = np.isfinite(table.cost[rows])
            fits &= self.cpus[rows] + table.cpus[rows] >= shape.cpus
            fits &= self.memory_mib[rows] + table.memory_mib[rows] >= shape.memory_mib
            fits &= ~np.isin(rows, taken)
            rows = rows[fits]
            if len(rows) < shape.nodes:
                return None
            order = np.lexsort((rows, self.gpus[rows], table.cost[rows]))
            for node in rows[order[: shape.nodes]].tolist():
                taken.append(node)
                moves |= table.jobs[node]
        return moves

    def capable(self, shape: Request, until_s: float) -> Ints:
        """Nodes (rows) that could hold one share until then if they were empty."""
        # Nobody is stopped for what the calendar keeps for others; the later, the more of it.
        kept = self.board.keeping.binding(Seeker(NONE, shape), until_s)
        if (shape, len(kept)) not in self._capable:
            fit = is_capable(self.board, shape, self.board.offered_gpus)
            fit &= self.board.snapshot.nodes.takes_work
            for one in kept:
                fit[one.nodes] = False
            rows = np.flatnonzero(without_avoided(self.board, shape, flags(fit)))
            self._capable[shape, len(kept)] = ints(rows)
        return self._capable[shape, len(kept)]

    def _cleared(self, gpus: int, least: int, tier: int) -> Clearances:
        """What freeing so many GPUs costs on each node; only nodes that changed are looked at."""
        asked = gpus, least, tier
        table = self._clearances.get(asked)
        if table is None:
            table = self._clearances[asked] = Clearances.unknown(len(self.gpus))
        for node in np.flatnonzero(table.as_of != self._changes).tolist():
            found = self._clear(node, max(0, gpus - int(self.gpus[node])), least, tier)
            moved = [self.residents[job] for job in found or ()]
            table.jobs[node] = found or set()
            table.cost[node] = np.inf if found is None else sum(one.cost for one in moved)
            table.cpus[node] = sum(one.cpus for one in moved)
            table.memory_mib[node] = sum(one.memory_mib for one in moved)
        table.as_of[:] = self._changes
        return table

    def _clear(self, node: int, need: int, least: int, tier: int) -> set[int] | None:
        """The cheapest movable jobs that free enough GPUs here; None if all do not.

        `best[g]`: the least cost of freeing g GPUs, or more at the last g.
        """
        here = self._on_node.get(node, set()) - self.fixed - self.bound
        known = ((job, self.residents[job]) for job in here)
        movable = [job for job, one in known if one.gpus < least and one.tier <= tier]
        shares = {job: self._share(job, node) for job in sorted(movable)}
        if sum(shares.values()) < need:
            return None
        best: list[tuple[float, tuple[int, ...]] | None] = [(0.0, ())] + [None] * need
        for job, frees in shares.items():
            cost = self.residents[job].cost
            for freed in range(need, -1, -1):
                entry = best[freed]
                if entry is None:
                    continue
                reach = min(need, freed + frees)
                offer = (entry[0] + cost, (*entry[1], job))
                old = best[reach]
                if reach > freed and (old is None or offer[0] < old[0]):
                    best[reach] = offer
        final = best[need]
        return None if final is None else set(final[1])

    def _share(self, job: int, node: int) -> int:
        return sum(gpus for where, gpus in self.residents[job].shares if where == node)

    def _charge(self, resident: Resident, sign: int) -> None:
        for node, gpus in resident.shares:
            self.gpus[node] += sign * gpus
            self.cpus[node] += sign * resident.cpus
            self.memory_mib[node] += sign * resident.memory_mib


def held_gpus(snapshot: Snapshot, jobs: Ints, first: int) -> dict[int, list[tuple[int, int]]]:
    """What these running jobs (ids) hold: nodes and how many GPUs of each; their rows begin at
    `first`.
    """
    held, devices = snapshot.held, snapshot.devices
    row_of = {job: first + at for at, job in enumerate(jobs.tolist())}
    counted = devices.holder[devices.holder != NONE]
    gpus = np.bincount(counted, minlength=len(held.job)).tolist()
    shares: dict[int, list[tuple[int, int]]] = {}
    for job, node, count in zip(held.job.tolist(), held.node.tolist(), gpus, strict=True):
        if job in row_of and count:
            shares.setdefault(row_of[job], []).append((node, count))
    return shares
