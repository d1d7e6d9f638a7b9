"""Elastic jobs give nodes back before anybody has to stop, where who runs is chosen anew.

`selection.py` counts on it: who would stop stays if the elastic ones of its tier, each at its
least, leave GPUs enough. Here it becomes nodes: a newcomer that fits nowhere is given those of
elastic jobs of its tier or a lower one, the least work lost for each node first, before anybody
moves for it. They give no more than needed, and have again what nobody took in the end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from scheduler.engine.plan import Resize
from scheduler.engine.preempting.floor import Floor, Resident
from scheduler.engine.preempting.resizing import Elastic
from scheduler.engine.snapshot import Flags, Ints, Request, flags, ints


class Yielding:
    """The `elastic` jobs among those on a floor, by row there; the first that runs is `first`.

    `had`: the nodes of each; `nodes`: what those have left that gave some back.
    """

    def __init__(self, elastic: Elastic, floor: Floor, first: int) -> None:
        self.elastic = elastic
        self.floor = floor
        self.had: dict[int, Ints] = {}
        self.nodes: dict[int, Ints] = {}
        self._first = first
        for row in np.flatnonzero(elastic.is_open).tolist():
            if not elastic.request(row).part_gpus:
                self.had[first + row] = ints(np.sort(elastic.nodes(row)))

    def spare_gpus(self, gpus: Ints) -> Ints:
        """Of so many by row those that each can do without."""
        spare = np.zeros(len(gpus), dtype=np.int64)
        for row, had in self.had.items():
            spare[row] = (len(had) - self._least_of(row)) * int(gpus[row]) // len(had)
        return ints(spare)

    def resize(self, row: int, beneficiary: int) -> Resize:
        """The job goes on with what it has left, for that one (id)."""
        row_of_elastic, nodes = row - self._first, self.nodes[row]
        return self.elastic.resize(row_of_elastic, nodes, beneficiary=beneficiary)

    def make_room(self, request: Request, tier: int, until_s: float) -> list[int]:
        """Who gave nodes back so that the request fits; nobody if it would not even so."""
        if request.part_gpus or not request.gpus:
            return []
        capable = self.floor.capable(request, until_s)
        missing = request.nodes - int(np.count_nonzero(self.floor.fits(request, capable)))
        before = dict[int, Ints]()
        for row, useful, able in self._offers(request, tier, capable):
            if missing <= 0:
                break
            now = self._now(row)
            wanted = min(useful, missing)
            given, stays = self.elastic.give_back(row - self._first, now, wanted, able)
            if len(given):
                missing -= int(np.count_nonzero(able[given]))
                before[row] = now
                self._stand_on(row, stays)
        if missing <= 0:
            return list(before)
        for row, nodes in before.items():
            self._stand_on(row, nodes)
        return []

    def remain(self, row: int, gone: Resident) -> bool:
        """Whether a job that was taken off goes on with the nodes it had that nobody took."""
        if row not in self.had:
            return False
        return self._go_on(row, gone, [])

    def take_again(self) -> None:
        """Who gave back what nobody took has it again."""
        for row, stays in list(self.nodes.items()):
            if row in self.floor.residents:
                self._go_on(row, self.floor.take_off(row), stays.tolist())

    def given(self, row: int) -> set[int]:
        """The nodes that a job gave back."""
        return set(np.setdiff1d(self.had[row], self.nodes[row]).tolist())

    def who_shrank(self, leaving: Collection[int]) -> list[int]:
        """Who goes on with fewer nodes, beside those who leave theirs anyway."""
        return sorted(row for row in self.nodes if row not in leaving)

    def _offers(self, request: Request, tier: int, capable: Ints) -> list[tuple[int, int, Flags]]:
        """Who can make room on how many nodes, and on which; the cheapest for each node first."""
        offers = []
        for row in self.had.keys() & self.floor.residents.keys() - self.floor.fixed:
            resident, now = self.floor.residents[row], self._now(row)
            if resident.tier > tier:
                continue
            mine = ints(np.intersect1d(now, capable))
            mine = ints(mine[~self.floor.fits(request, mine)])
            able = flags(np.zeros(len(self.floor.gpus)))
            able[mine[self.floor.fits(request, mine, resident)]] = True
            useful = min(len(now) - self._least_of(row), int(np.count_nonzero(able)))
            if useful > 0:
                price = float(self.elastic.price[row - self._first])
                offers.append((price / useful, row, useful, able))
        return [offer[1:] for offer in sorted(offers, key=lambda offer: offer[:2])]

    def _least_of(self, row: int) -> int:
        return min(len(self.had[row]), self.elastic.least_of(row - self._first))

    def _now(self, row: int) -> Ints:
        return self.nodes.get(row, self.had[row])

    def _stand_on(self, row: int, nodes: Ints) -> None:
        self._put(row, self.floor.take_off(row), nodes)

    def _go_on(self, row: int, resident: Resident, nodes: list[int]) -> bool:
        """Put the job on these nodes and as many more of those it had as it can have; False if
        that is none.
        """
        share = resident.shares[0][1]
        others = [node for node in self.had[row].tolist() if node not in nodes]
        room = [
            node for node in others if self.floor.holds(replace(resident, shares=((node, share),)))
        ]
        found = self.elastic.most_of(row - self._first, ints([*nodes, *room]))
        if len(found) <= len(nodes):
            found = ints(nodes)
        if len(found):
            self._put(row, resident, found)
        return len(found) > 0

    def _put(self, row: int, resident: Resident, nodes: Ints) -> None:
        share = resident.shares[0][1]
        shares = tuple((node, share) for node in nodes.tolist())
        by_node = resident.cost / len(resident.shares)
        self.floor.put(
            row,
            replace(resident, shares=shares, gpus=share * len(shares), cost=by_node * len(shares)),
        )
        self.nodes[row] = nodes
        if len(nodes) == len(self.had[row]):
            del self.nodes[row]
