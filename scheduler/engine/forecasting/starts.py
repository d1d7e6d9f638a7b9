"""The probable start of every job that waits for room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Seeker
from scheduler.engine.forecasting.line import Kept, Line
from scheduler.engine.freeing import ready_times
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.plan import SlotKind
from scheduler.engine.reservation import Head, earliest_start
from scheduler.engine.shaping.sizes import least_size
from scheduler.engine.snapshot import NONE, Classes, Floats, Ints, Request, Snapshot, floats, ints
from scheduler.engine.worth import gpus_of
from scheduler.states import WaitReason

# Who waits for one of these starts once there is room; of others nobody knows when.
FORECAST_REASONS = frozenset(
    {
        WaitReason.CAPACITY_BUSY,
        WaitReason.TOPOLOGY_FRAGMENTED,
        WaitReason.BEHIND_HIGHER_PRIORITY,
        WaitReason.BACKFILL_WOULD_DELAY_HEAD,
    }
)
# So many jobs of a pool are laid out one by one, the others by the GPU time ahead of them.
LAID_OUT = 400


def forecast_starts(
    board: Board, classes: Classes, rows: Ints, heads: Mapping[int, Sequence[Head]]
) -> tuple[Floats, Floats]:
    """p50 and p90 of the starts of the waiting `rows`, which are in order; NaN where unknown.

    p90 takes declared limits as ends, p50 what jobs usually run of them. Nobody new comes. The
    first job of a pool gets as p90 the bound that reservations use. Costs one look at the nodes of
    a pool for each of its first `LAID_OUT` jobs. Of jobs without GPUs only the first is told.
    """
    p50_s, p90_s = floats(np.full(len(rows), np.nan)), floats(np.full(len(rows), np.nan))
    pools = board.snapshot.waiting.pool[rows]
    for pool in np.unique(pools).tolist():
        at = np.flatnonzero(pools == pool)
        p50_s[at], p90_s[at] = _of_pool(board, classes, rows[at], heads.get(pool, ()), len(at))
    return _known(p50_s, p90_s)


def forecast_start(
    board: Board, classes: Classes, rows: Ints, heads: Mapping[int, Sequence[Head]], at: int
) -> tuple[float, float]:
    """What `forecast_starts` says of `rows[at]`: only who is before it in its pool is laid out."""
    pool = int(board.snapshot.waiting.pool[rows[at]])
    mine = np.flatnonzero(board.snapshot.waiting.pool[rows] == pool)
    place = int(np.searchsorted(mine, at))
    found = _of_pool(board, classes, rows[mine], heads.get(pool, ()), place + 1)
    p50_s, p90_s = _known(*(floats(column[place:]) for column in found))
    return float(p50_s[0]), float(p90_s[0])


def _of_pool(
    board: Board, classes: Classes, rows: Ints, heads: Sequence[Head], first: int
) -> tuple[Floats, Floats]:
    """Of the `first` ones of a pool's rows, which are in order: infinite for never."""
    pool = int(board.snapshot.waiting.pool[rows[0]])
    share = _usual_share(board.snapshot, pool)
    learns = share != 1.0 or bool(np.isfinite(board.snapshot.waiting.learnt_s[rows]).any())
    asked = rows[:first]
    late_s = _PoolLine(board, classes, pool, 1.0, learns=False).starts(asked)
    late_s[:1] = _first_start(board, classes, int(rows[0]), heads)
    soon_s = late_s
    if learns:
        soon_s = _PoolLine(board, classes, pool, share, learns=True).starts(asked)
    return floats(np.minimum(soon_s, late_s)), late_s


def _known(p50_s: Floats, p90_s: Floats) -> tuple[Floats, Floats]:
    p50_s[~np.isfinite(p90_s)] = p90_s[~np.isfinite(p90_s)] = np.nan
    return p50_s, p90_s


def _usual_share(snapshot: Snapshot, pool: int) -> float:
    return 1.0 if snapshot.run_share is None else float(snapshot.run_share[pool])


def _first_start(board: Board, classes: Classes, row: int, heads: Sequence[Head]) -> float:
    for head in heads:
        if head.row == row:
            return head.start.start_s
    request = classes.requests[int(classes.of_job[row])]
    stay_s = float(board.snapshot.waiting.remaining_s[row])
    start = earliest_start(board, request, stay_s, board.keeping.binding(Seeker(row, request)))
    return np.inf if start is None else start.start_s


# Nodes, devices on each, those of a last smaller share, for how long, for how long at most, and
# which row of `from_s`.
_Asked = tuple[int, int, int, float, float, int]
# Begins and ends of the spans in which nodes are kept from a job, as bytes.
_Spans = tuple[bytes, bytes]
# Starts, when devices are free on average after that, and how many ever are.
_LaidOut = tuple[tuple[float, ...], float, int]


@lru_cache(maxsize=16)
def _lay_out(
    shape: tuple[int, ...],
    free_s: bytes,
    from_s: tuple[bytes, ...],
    spans: tuple[_Spans, ...],
    asked: tuple[_Asked, ...],
) -> _LaidOut:
    """Put jobs into a line one after the other; infinite for never. Arrays come as their bytes.

    Whoever asks what would help a job decides many times, and mostly the line is the same again.
    """
    line = Line(np.frombuffer(free_s).reshape(shape))
    allowed = [np.frombuffer(row) for row in from_s]
    kept = [Kept(*(np.frombuffer(one).reshape(-1, shape[0]) for one in pair)) for pair in spans]
    starts_s = []
    for nodes, gpus, part_gpus, run_s, stay_s, which in asked:
        start_s = float("inf")
        if which != NONE:
            where = allowed[which], kept[which], stay_s
            start_s = line.take(nodes, gpus, run_s, *where)
            if part_gpus:
                start_s = max(start_s, line.take(1, part_gpus, run_s, *where))
        starts_s.append(start_s)
    return tuple(starts_s), *line.mean_free_s()


class _PoolLine:
    """The line of one pool: jobs run `share` of what they declare; as learnt if it `learns`."""

    def __init__(
        self, board: Board, classes: Classes, pool: int, share: float, *, learns: bool
    ) -> None:
        self._board = board
        self._classes = classes
        self._share = share
        self._learns = learns
        self._nodes: Ints = ints(np.flatnonzero(board.in_pool[pool]))
        self._spans: dict[tuple[int, bool, bool, int, int], _Spans] = {}

    def starts(self, rows: Ints) -> Floats:
        """Of these waiting jobs in order; infinite for never."""
        waiting = self._board.snapshot.waiting
        run_s = floats(waiting.remaining_s[rows] * self._share)
        if self._learns:
            learnt_s = np.minimum(waiting.learnt_s[rows], waiting.remaining_s[rows])
            run_s = floats(np.where(np.isfinite(waiting.learnt_s[rows]), learnt_s, run_s))
        starts_s = floats(np.full(len(rows), np.inf))
        laid_s, mean_s, capacity = self._laid_out(rows[:LAID_OUT], run_s[:LAID_OUT])
        starts_s[:LAID_OUT] = laid_s
        if len(rows) > LAID_OUT:
            work_s = (gpus_of(waiting)[rows] * run_s)[LAID_OUT:]
            ahead_s = np.cumsum(work_s) - work_s if np.isfinite(work_s).all() else np.inf
            starts_s[LAID_OUT:] = mean_s + ahead_s / max(1, capacity)
        return starts_s

    def _laid_out(self, rows: Ints, run_s: Floats) -> _LaidOut:
        allowed: dict[int, int] = {}
        from_s: list[bytes] = []
        spans: list[_Spans] = []
        asked: list[_Asked] = []
        class_of = self._classes.of_job[rows].tolist()
        # Who starts is gone within its limit before what is kept begins.
        most_s = self._board.snapshot.waiting.remaining_s[rows] + self._board.keeping.slack_s
        columns = class_of, run_s.tolist(), most_s.tolist()
        for class_row, its_run_s, stay_s in zip(*columns, strict=True):
            request = self._classes.requests[class_row]
            if class_row not in allowed and request.gpus and len(self._nodes):
                allowed[class_row] = len(from_s)
                from_s.append(self._allowed_s(request).tobytes())
                spans.append(self._kept_from(request))
            which = allowed.get(class_row, NONE)
            # As it starts: an elastic job begins with as few nodes as it can.
            size = least_size(self._board.snapshot, request)
            shape = size, request.gpus, request.part_gpus
            asked.append((*shape, its_run_s, stay_s, which))
        free_s = self._free_s()
        listed = tuple(from_s), tuple(spans), tuple(asked)
        return _lay_out(free_s.shape, free_s.tobytes(), *listed)

    def _kept_from(self, request: Request) -> _Spans:
        """When maintenance, bookings and headroom keep nodes of the pool from it; where they leave
        enough of a node for a share, they are not looked at."""
        who = request.booking, request.uses_headroom
        asked = *who, request.is_exclusive, request.gpus, request.model
        if asked not in self._spans:
            board, seeker, size = self._board, Seeker(NONE, request), len(self._nodes)
            place_of = np.full(len(board.changes), NONE)
            place_of[self._nodes] = np.arange(size)
            found = list[tuple[Ints, float, float]]()
            for one in board.keeping.of_pool(request.pool):
                if one.kind is SlotKind.HEAD or not one.binds(seeker):
                    continue
                left = board.offered_gpus[request.model][one.nodes]
                left = left - one.need[0] * board.keeping.may_meet(one, request.model)
                is_shut = (left < request.gpus) | one.is_whole | request.is_exclusive
                found.append((ints(place_of[one.nodes[is_shut]]), one.from_s, one.until_s))
            kept = Kept.of(size, found)
            self._spans[asked] = kept.from_s.tobytes(), kept.until_s.tobytes()
        return self._spans[asked]

    def _free_s(self) -> Floats:
        """By node of the pool and device: when it is free, in the order of rows."""
        board, snapshot = self._board, self._board.snapshot
        now_s = snapshot.now_s
        until_s = np.append(board.holders()[3], now_s)
        if self._share < 1.0:
            until_s = now_s + (until_s - now_s) * self._share
        free_s = np.where(board.is_free, now_s, np.maximum(until_s[board.holder], now_s))
        free_s[~board.is_offered] = np.inf
        node = snapshot.devices.node
        counts = np.bincount(node, minlength=len(snapshot.nodes.id))
        number = np.arange(len(node)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((len(counts), int(counts.max(initial=0))), np.inf)
        table[node, number] = free_s
        return np.asarray(table[self._nodes])

    def _allowed_s(self, request: Request) -> Floats:
        """By node of the pool: from when on cpus and memory allow a share; infinite for never."""
        board = self._board
        capable = without_avoided(board, request, is_capable(board, request, board.offered_gpus))
        short_of_host = (board.free_gpus[request.model] >= request.gpus) & ~board.fits(request)
        now_s = board.snapshot.now_s
        from_s = np.full(len(capable), now_s)
        if (short_of_host & capable).any():
            from_s = np.where(short_of_host, ready_times(board, request), now_s)
        return floats(np.where(capable, from_s, np.inf)[self._nodes])
