"""Nodes and devices by score; scores are kept until a node changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.grouping import group_rows
from scheduler.engine.packing.fragmentation import Fragmentation
from scheduler.engine.packing.levels import Levels
from scheduler.engine.packing.mix import typical_mix
from scheduler.engine.packing.potential import Potential
from scheduler.engine.policy import PlacementRule, Policy
from scheduler.engine.snapshot import (
    NONE,
    WHOLE_MILLI,
    Flags,
    Floats,
    Ints,
    Request,
    ints,
)

# Below this many nodes, finding equal states costs more than scoring each.
_WORTH_GROUPING = 64


class Measure(Protocol):
    """A potential: what of a state will be wasted, and what a drop of it is worth."""

    def of(self, levels: Ints, cpus: Ints) -> Floats: ...
    def points(self, drop: Floats) -> Floats: ...
    def device_points(self, drop: Floats) -> Floats: ...


@dataclass(slots=True, eq=False)
class _Scores:
    """Of one kind of request, by node: points, the device for a share, and as of which change."""

    points: Floats
    column: Ints
    as_of: Ints
    serves: Flags


class Packing:
    """Scores nodes for a board by the drop of a measure."""

    def __init__(self, board: Board, measure: Measure, levels: Levels) -> None:
        self._board = board
        self._measure = measure
        self._levels = levels
        self._scores: dict[tuple[int, int, int, int], _Scores] = {}

    def rank(self, request: Request, rows: Ints) -> Ints:
        """The best nodes for one share each, the best first, out of `rows`, which hold one.

        As many as the request needs; of equals the one with the least data to copy there, then
        the lower row.
        """
        points = self._fresh(request, rows).points[rows]
        missing = self._board.snapshot.missing_mib
        if request.dataset != NONE and missing is not None:
            order = np.lexsort((missing[request.dataset, rows], -points))
            return ints(rows[order[: request.nodes]])
        if request.nodes == 1:
            return ints(rows[points.argmax()])
        return ints(rows[np.argsort(-points, kind="stable")[: request.nodes]])

    def pick(self, request: Request, node: int) -> int:
        """The device row for a request that shares a device of this node, which holds it."""
        scores = self._scores_of(request)
        # The node was ranked a moment ago.
        if scores.as_of[node] != self._board.changes[node]:
            self._refresh(request, scores, ints([node]))
        return int(self._levels.grid[node, scores.column[node]])

    def _fresh(self, request: Request, rows: Ints) -> _Scores:
        """The request's scores, up to date at `rows`."""
        scores, changes = self._scores_of(request), self._board.changes
        stale = rows[scores.as_of[rows] != changes[rows]]
        if len(stale):
            self._refresh(request, scores, stale)
        return scores

    def _scores_of(self, request: Request) -> _Scores:
        key = (request.gpus, request.gpu_milli, request.cpus, request.model)
        scores = self._scores.get(key)
        if scores is None:
            size = len(self._board.changes)
            scores = _Scores(
                np.zeros(size),
                np.zeros(size, dtype=np.int64),
                np.full(size, NONE, dtype=np.int64),
                self._levels.serves_request(request),
            )
            self._scores[key] = scores
        return scores

    def _refresh(self, request: Request, scores: _Scores, nodes: Ints) -> None:
        scores.as_of[nodes] = self._board.changes[nodes]
        levels, cpus = self._levels.of(nodes), self._board.cpus_free[nodes]
        if len(nodes) < _WORTH_GROUPING:
            scores.points[nodes], scores.column[nodes] = self._drops(
                request, scores.serves, levels, cpus
            )
            return
        first, group = group_rows([*levels.T, cpus])
        points, column = self._drops(request, scores.serves, levels[first], cpus[first])
        scores.points[nodes], scores.column[nodes] = points[group], column[group]

    def _drops(
        self, request: Request, serves: Flags, levels: Ints, cpus: Ints
    ) -> tuple[Floats, Ints]:
        """Points of each state, all of which hold the request, and the column of the device."""
        left = cpus - request.cpus
        usable = serves[levels]
        if request.gpu_milli == WHOLE_MILLI or not request.gpus:
            # The first devices that serve stand for those taken: equal models are worth the same.
            taken = usable & (usable.cumsum(axis=1) <= request.gpus)
            after = levels - WHOLE_MILLI * taken
            waste = self._measure.of(np.concatenate([levels, after]), np.concatenate([cpus, left]))
            drop = waste[: len(levels)] - waste[len(levels) :]
            return self._measure.points(drop), np.zeros(len(levels), dtype=np.int64)
        state, device = np.nonzero(usable)
        after = levels[state]
        after[np.arange(len(state)), device] -= request.gpu_milli
        waste = self._measure.of(
            np.concatenate([levels, after]), np.concatenate([cpus, left[state]])
        )
        drop = waste[state] - waste[len(levels) :]
        table = np.full(levels.shape, -np.inf)
        table[state, device] = self._measure.device_points(drop)
        column = table.argmax(axis=1)
        drops = np.zeros(levels.shape)
        drops[state, device] = drop
        return self._measure.points(drops[np.arange(len(levels)), column]), column


def packing_for(policy: Policy, board: Board) -> dict[int, Packing]:
    """By pool (row), what scores its nodes; none where the engine's own order of preference does.

    Pools with one rule share their scores: a node belongs to one pool.
    """
    rules = [one.placement for one in policy.by_pool(board.snapshot.pools)]
    used = set(rules) - {PlacementRule.TIGHT}
    if not used or not len(board.snapshot.waiting) or not board.is_offered.any():
        return {}
    levels, mix = Levels(board), typical_mix(board.snapshot)
    measures: dict[PlacementRule, type[Fragmentation | Potential]] = {
        PlacementRule.FGD: Fragmentation,
        PlacementRule.PACK: Potential,
    }
    by_rule = {rule: Packing(board, measures[rule](levels, mix), levels) for rule in sorted(used)}
    return {pool: by_rule[rule] for pool, rule in enumerate(rules) if rule in by_rule}
