"""Nodes with the jobs on them as counts, for trying out who has to move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Seeker
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.snapshot import NONE, Ints, Request, flags, ints


@dataclass(slots=True)
class Resident:
    """A job on the floor: where, as (node row, GPUs), and what moving it costs."""

    shares: tuple[tuple[int, int], ...]
    cpus: int
    memory_mib: int
    gpus: int
    cost: float


class Floor:
    """Free GPUs, cpus and memory by node, and who could be moved off it.

    Counts only: devices are picked on the board once it is known who goes. A job that is there
    until some moment leaves alone what begins to be kept before that. Who is `fixed` is not moved.
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        self.gpus: Ints = ints(board.free_gpus[NONE]).copy()
        self.cpus: Ints = board.cpus_free.copy()
        self.memory_mib: Ints = board.memory_free_mib.copy()
        self.residents: dict[int, Resident] = {}
        self.fixed: set[int] = set()
        self._on_node: dict[int, set[int]] = {}
        self._whole: Ints = board.offered_gpus[NONE]
        self._capable: dict[tuple[Request, int], Ints] = {}

    def admit(self, job: int, resident: Resident) -> None:
        """The job stands on its nodes; what it holds is taken already."""
        self.residents[job] = resident
        for node, _ in resident.shares:
            self._on_node.setdefault(node, set()).add(job)

    def put(self, job: int, resident: Resident) -> None:
        """The job takes its shares of what is free."""
        self._charge(resident, -1)
        self.admit(job, resident)

    def take_off(self, job: int) -> Resident:
        """The job leaves and gives back what it holds."""
        resident = self.residents.pop(job)
        for node, _ in resident.shares:
            self._on_node[node].discard(job)
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

    def find(self, request: Request, until_s: float) -> list[tuple[int, int]] | None:
        """Where all shares fit now, as (node, GPUs): tightest first, whole nodes last."""
        shares: list[tuple[int, int]] = []
        for shape in request.shapes():
            rows = self.capable(shape, until_s)
            fits = rows[
                (self.gpus[rows] >= shape.gpus)
                & (self.cpus[rows] >= shape.cpus)
                & (self.memory_mib[rows] >= shape.memory_mib)
            ]
            if shares:
                fits = fits[~np.isin(fits, [node for node, _ in shares])]
            if len(fits) < shape.nodes:
                return None
            free = self.gpus[fits]
            breaks_whole = (free == self._whole[fits]) & (free > shape.gpus)
            best = fits[np.lexsort((fits, free, breaks_whole))[: shape.nodes]]
            shares += [(node, shape.gpus) for node in sorted(best.tolist())]
        return shares

    def cheapest_moves(self, request: Request, least: int, until_s: float) -> set[int] | None:
        """Which jobs, each smaller than `least` GPUs, to move so that all shares fit; None if none.

        Node by node the cheapest set that frees enough; the nodes where that costs least.
        """
        moves: set[int] = set()
        taken: set[int] = set()
        for shape in request.shapes():
            offers = []
            for node in self.capable(shape, until_s).tolist():
                moved = None if node in taken else self._clear(node, shape, least)
                if moved is not None:
                    cost = sum(self.residents[job].cost for job in moved)
                    offers.append((cost, int(self.gpus[node]), node, moved))
            if len(offers) < shape.nodes:
                return None
            offers.sort(key=lambda offer: offer[:3])
            for _, _, node, moved in offers[: shape.nodes]:
                taken.add(node)
                moves |= moved
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

    def _clear(self, node: int, shape: Request, least: int) -> set[int] | None:
        """The cheapest movable jobs that free enough GPUs here, if cpus and memory then do too.

        `best[g]`: the least cost of freeing g GPUs, or more at the last g.
        """
        need = max(0, shape.gpus - int(self.gpus[node]))
        here = self._on_node.get(node, set()) - self.fixed
        movable = [job for job in here if self.residents[job].gpus < least]
        best: list[tuple[float, tuple[int, ...]] | None] = [(0.0, ())] + [None] * need
        for job in sorted(movable):
            frees, cost = self._share(job, node), self.residents[job].cost
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
        if final is None:
            return None
        moved = [self.residents[job] for job in final[1]]
        has_cpus = int(self.cpus[node]) + sum(m.cpus for m in moved) >= shape.cpus
        memory_mib = int(self.memory_mib[node]) + sum(m.memory_mib for m in moved)
        has_memory = memory_mib >= shape.memory_mib
        return set(final[1]) if has_cpus and has_memory else None

    def _share(self, job: int, node: int) -> int:
        return sum(gpus for where, gpus in self.residents[job].shares if where == node)

    def _charge(self, resident: Resident, sign: int) -> None:
        for node, gpus in resident.shares:
            self.gpus[node] += sign * gpus
            self.cpus[node] += sign * resident.cpus
            self.memory_mib[node] += sign * resident.memory_mib
