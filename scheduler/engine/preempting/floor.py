"""Nodes with the jobs on them as counts, for trying out who has to move."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Seeker
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.snapshot import NONE, Request


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

    Counts only: devices are picked on the board once it is known who goes.
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        self.gpus: list[int] = board.free_gpus[NONE].tolist()
        self.cpus: list[int] = board.cpus_free.tolist()
        self.memory_mib: list[int] = board.memory_free_mib.tolist()
        self.residents: dict[int, Resident] = {}
        self._on_node: dict[int, set[int]] = {}
        self._whole: list[int] = board.offered_gpus[NONE].tolist()
        self._capable: dict[Request, list[int]] = {}

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
            self.gpus[node] >= gpus
            and self.cpus[node] >= resident.cpus
            and self.memory_mib[node] >= resident.memory_mib
            for node, gpus in resident.shares
        )

    def find(self, request: Request) -> list[tuple[int, int]] | None:
        """Where all shares fit now, as (node, GPUs): tightest first, whole nodes last."""
        shares: list[tuple[int, int]] = []
        for shape in request.shapes():
            taken = {node for node, _ in shares}
            fits = [n for n in self.capable(shape) if n not in taken and self._fits(n, shape)]
            if len(fits) < shape.nodes:
                return None
            fits.sort(
                key=lambda node: (self._breaks_whole(node, shape.gpus), self.gpus[node], node)
            )
            shares += [(node, shape.gpus) for node in sorted(fits[: shape.nodes])]
        return shares

    def cheapest_moves(self, request: Request, least: int) -> set[int] | None:
        """Which jobs, each smaller than `least` GPUs, to move so that all shares fit; None if none.

        Node by node the cheapest set that frees enough; the nodes where that costs least.
        """
        moves: set[int] = set()
        taken: set[int] = set()
        for shape in request.shapes():
            offers = []
            for node in self.capable(shape):
                moved = None if node in taken else self._clear(node, shape, least)
                if moved is not None:
                    cost = sum(self.residents[job].cost for job in moved)
                    offers.append((cost, self.gpus[node], node, moved))
            if len(offers) < shape.nodes:
                return None
            offers.sort(key=lambda offer: offer[:3])
            for _, _, node, moved in offers[: shape.nodes]:
                taken.add(node)
                moves |= moved
        return moves

    def capable(self, shape: Request) -> list[int]:
        """Nodes that could hold one share if they were empty."""
        if shape not in self._capable:
            fit = is_capable(self.board, shape, self.board.offered_gpus)
            fit &= self.board.snapshot.nodes.takes_work
            # Nobody is stopped for what the calendar keeps for others.
            for one in self.board.keeping.binding(Seeker(NONE, shape)):
                fit[one.nodes] = False
            self._capable[shape] = without_avoided(self.board, shape, fit).nonzero()[0].tolist()
        return self._capable[shape]

    def _clear(self, node: int, shape: Request, least: int) -> set[int] | None:
        """The cheapest movable jobs that free enough GPUs here, if cpus and memory then do too.

        `best[g]`: the least cost of freeing g GPUs, or more at the last g.
        """
        need = max(0, shape.gpus - self.gpus[node])
        movable = [j for j in self._on_node.get(node, ()) if self.residents[j].gpus < least]
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
        has_cpus = self.cpus[node] + sum(m.cpus for m in moved) >= shape.cpus
        has_memory = self.memory_mib[node] + sum(m.memory_mib for m in moved) >= shape.memory_mib
        return set(final[1]) if has_cpus and has_memory else None

    def _fits(self, node: int, shape: Request) -> bool:
        return (
            self.gpus[node] >= shape.gpus
            and self.cpus[node] >= shape.cpus
            and self.memory_mib[node] >= shape.memory_mib
        )

    def _breaks_whole(self, node: int, gpus: int) -> bool:
        return self.gpus[node] == self._whole[node] and self.gpus[node] > gpus

    def _share(self, job: int, node: int) -> int:
        return sum(gpus for where, gpus in self.residents[job].shares if where == node)

    def _charge(self, resident: Resident, sign: int) -> None:
        for node, gpus in resident.shares:
            self.gpus[node] += sign * gpus
            self.cpus[node] += sign * resident.cpus
            self.memory_mib[node] += sign * resident.memory_mib
