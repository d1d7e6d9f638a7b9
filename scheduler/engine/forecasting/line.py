"""The devices of a pool as machines that each become free at some time."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.snapshot import Floats, Ints, floats, ints

_ALL = slice(None)
# Holes before a gang's start that are remembered; more are forgotten, which is only pessimistic.
MOST_HOLES = 2048
# Spans of a node for which it is kept from somebody, the first ones; more are forgotten.
MOST_SPANS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """When nodes are kept from a job: spans x nodes, of each node in order of their begins, filled
    up with infinite ones."""

    from_s: Floats
    until_s: Floats

    @classmethod
    def of(cls, size: int, spans: Sequence[tuple[Ints, float, float]]) -> Kept:
        """Of `size` nodes; by span the nodes (rows), its begin and its end."""
        last = ints(np.zeros(size))
        table = np.full((2, MOST_SPANS, size), np.inf)
        for nodes, from_s, until_s in sorted(spans, key=lambda span: span[1:]):
            nodes = nodes[last[nodes] < MOST_SPANS]
            table[0, last[nodes], nodes] = from_s
            table[1, last[nodes], nodes] = until_s
            last[nodes] += 1
        used = int(last.max(initial=0))
        return cls(floats(table[0, :used]), floats(table[1, :used]))

    def past(self, ready_s: Floats, stay_s: float, nodes: Ints | slice = _ALL) -> Floats:
        """From when on a job may be there for so long, if it is ready by `ready_s`."""
        for from_s, until_s in zip(self.from_s, self.until_s, strict=True):
            meets = (ready_s < until_s[nodes]) & (ready_s + stay_s > from_s[nodes])
            ready_s = floats(np.where(meets, until_s[nodes], ready_s))
        return ready_s


NOTHING_KEPT = Kept.of(0, ())


def _together(ready_s: Floats, nodes: int, kept: Kept, stay_s: float) -> tuple[Ints, float]:
    """So many nodes that a job can have at once the soonest, and when; infinite for never."""
    chosen, start_s = _soonest(ready_s, nodes)
    while start_s < np.inf and len(kept.from_s):
        # Who waits for the last of them may meet what is kept of the others.
        chosen, later_s = _soonest(kept.past(np.maximum(ready_s, start_s), stay_s), nodes)
        if later_s == start_s:
            break
        start_s = later_s
    return chosen, start_s


def _soonest(ready_s: Floats, nodes: int) -> tuple[Ints, float]:
    """So many nodes, the last of which is ready the soonest, and when."""
    chosen = ready_s.argpartition(nodes - 1)[:nodes]
    return chosen, float(ready_s[chosen[-1]])


class Line:
    """List scheduling (Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17,
    1969): each job, in order, where it can start first; later ones may use the holes it leaves.

    `free_s`: nodes x devices, when each device is free, each row ascending, infinite for never.
    Model, cpus and memory are not looked at here; the caller says by node from when on a job may
    start there.
    """

    def __init__(self, free_s: Floats) -> None:
        self.free_s = np.sort(free_s, axis=1)
        self._holes = 0
        self._hole_node: Ints = ints(np.zeros(MOST_HOLES))
        self._hole_gpus: Ints = ints(np.zeros(MOST_HOLES))
        self._hole_from_s: Floats = floats(np.zeros(MOST_HOLES))
        self._hole_to_s: Floats = floats(np.zeros(MOST_HOLES))

    def take(
        self,
        nodes: int,
        gpus: int,
        run_s: float,
        from_s: Floats,
        kept: Kept = NOTHING_KEPT,
        stay_s: float = 0.0,
    ) -> float:
        """Start a job of `nodes` nodes x `gpus` devices for `run_s` as soon as possible.

        `from_s`: by node, the earliest that is allowed there; `kept`: what is kept of them from a
        job that may stay for `stay_s`. Returns the time; infinite, and nothing is taken, if it can
        never start.
        """
        if gpus > self.free_s.shape[1] or nodes > self.free_s.shape[0]:
            return float("inf")
        ready_s = kept.past(np.maximum(self.free_s[:, gpus - 1], from_s), stay_s)
        if nodes > 1:
            chosen, start_s = _together(ready_s, nodes, kept, stay_s)
        else:
            start_s = float(ready_s.min())
            equal = np.flatnonzero(ready_s == start_s)
            # The tightest of equals: where the next device is free last.
            following = self.free_s[equal, min(gpus, self.free_s.shape[1] - 1)]
            chosen = equal[following.argmax(keepdims=True)]
            hole, begin_s = self._find_hole(gpus, run_s, from_s, start_s, kept, stay_s)
            if hole >= 0:
                return self._take_hole(hole, gpus, run_s, begin_s)
        if start_s < float("inf"):
            self._take(chosen, gpus, start_s, start_s + run_s)
        return start_s

    def left(self) -> tuple[tuple[float, int], ...]:
        """When how many of its devices are free after those laid out, in order."""
        when_s, count = np.unique(self.free_s[np.isfinite(self.free_s)], return_counts=True)
        return tuple(zip(when_s.tolist(), count.tolist(), strict=True))

    def _take(self, chosen: Ints, gpus: int, start_s: float, end_s: float) -> None:
        # Row by row: for the few nodes of most gangs that is less work than one look at an array.
        rows = self.free_s[chosen].tolist()
        for node, row in zip(chosen.tolist(), rows, strict=True):
            last = bisect_right(row, start_s)
            # The devices that became free last, so that those that idle stay together.
            taken = row[last - gpus : last]
            if taken[0] < start_s:
                for since_s, devices in Counter(taken).items():
                    self._add_hole(node, devices, since_s, start_s)
            del row[last - gpus : last]
            at = bisect_right(row, end_s)
            row[at:at] = [end_s] * gpus
        self.free_s[chosen] = rows

    def _add_hole(self, node: int, gpus: int, from_s: float, to_s: float) -> None:
        if self._holes < MOST_HOLES and gpus and from_s < to_s:
            self._hole_node[self._holes] = node
            self._hole_gpus[self._holes] = gpus
            self._hole_from_s[self._holes] = from_s
            self._hole_to_s[self._holes] = to_s
            self._holes += 1

    def _find_hole(
        self, gpus: int, run_s: float, from_s: Floats, before_s: float, kept: Kept, stay_s: float
    ) -> tuple[int, float]:
        """The hole in which the job could start first, earlier than `before_s`, and when; -1 for
        none."""
        if not self._holes:
            return -1, before_s
        known = slice(0, self._holes)
        node = self._hole_node[known]
        begin_s = kept.past(np.maximum(self._hole_from_s[known], from_s[node]), stay_s, node)
        holds = (self._hole_gpus[known] >= gpus) & (begin_s + run_s <= self._hole_to_s[known])
        begin_s = np.where(holds, begin_s, np.inf)
        best = int(begin_s.argmin())
        return best if begin_s[best] < before_s else -1, float(begin_s[best])

    def _take_hole(self, hole: int, gpus: int, run_s: float, start_s: float) -> float:
        node, to_s = int(self._hole_node[hole]), float(self._hole_to_s[hole])
        self._add_hole(node, gpus, float(self._hole_from_s[hole]), start_s)
        self._add_hole(node, gpus, start_s + run_s, to_s)
        self._hole_gpus[hole] -= gpus
        return start_s
