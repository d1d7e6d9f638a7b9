"""The probable start of every job that waits for room, or for a limit of its account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Seeker
from scheduler.engine.forecasting.allowances import NO_TERMS, Allowance, Allowances, Supply, Terms
from scheduler.engine.forecasting.behind import allowed_by_terms, ready_s
from scheduler.engine.forecasting.laying import Asked, LaidOut, Spans, lay_out
from scheduler.engine.forecasting.line import Kept
from scheduler.engine.freeing import ready_times
from scheduler.engine.grouping import group_rows
from scheduler.engine.ordering import count_ahead
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.plan import SlotKind
from scheduler.engine.reservation import Head, earliest_start
from scheduler.engine.shaping.sizes import least_size
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import (
    NONE,
    Classes,
    Flags,
    Floats,
    Ints,
    Request,
    flags,
    floats,
    ints,
)
from scheduler.engine.worth import gpus_of
from scheduler.states import WaitReason

# Who waits for one of these starts once there is room.
FORECAST_REASONS = frozenset(
    {
        WaitReason.CAPACITY_BUSY,
        WaitReason.TOPOLOGY_FRAGMENTED,
        WaitReason.BEHIND_HIGHER_PRIORITY,
        WaitReason.BACKFILL_WOULD_DELAY_HEAD,
    }
)
# And who for one of these, once its account may hold more, or its licences are back, and there is
# room; of others nobody knows when.
LIMIT_REASONS = frozenset(
    {WaitReason.QUOTA_HARD, WaitReason.QUOTA_BORROW_LIMIT, WaitReason.LICENCE_WAIT}
)
# So many jobs of a pool are laid out one by one; the others are told by what is ahead of them.
LAID_OUT = 400


@dataclass(frozen=True, slots=True, eq=False)
class Lined:
    """Who waits, in order: `rows` of waiting jobs; `is_for_room` says for what."""

    board: Board
    classes: Classes
    rows: Ints
    is_for_room: Flags
    heads: Mapping[int, Sequence[Head]]
    gate: Gate

    @property
    def is_licensed(self) -> bool:
        """Whether some of them need licences, which are the whole cluster's."""
        return bool((self.board.snapshot.waiting.licences[self.rows] != NONE).any())

    def only(self, at: Ints) -> Lined:
        """Those at these places."""
        where = self.rows[at], flags(self.is_for_room[at])
        return Lined(self.board, self.classes, *where, self.heads, self.gate)


def forecast_starts(lined: Lined) -> tuple[Floats, Floats]:
    """p50 and p90 of the starts, NaN where unknown.

    p90 takes declared limits as ends, p50 what jobs usually run of them. Nobody new comes. The
    first job of a pool that waits for room gets as p90 the bound that reservations use. Costs one
    look at the nodes of a pool for each of its first `LAID_OUT` jobs. Of jobs without GPUs only the
    first is told.
    """
    size = len(lined.rows)
    p50_s, p90_s = floats(np.full(size, np.nan)), floats(np.full(size, np.nan))
    for at in _apart(lined):
        p50_s[at], p90_s[at] = _of_lines(lined.only(at), len(at))
    return _known(p50_s, p90_s)


def forecast_start(lined: Lined, at: int) -> tuple[float, float]:
    """What `forecast_starts` says of the one at a place: only who is before it is laid out."""
    mine = next(places for places in _apart(lined) if at in places)
    place = int(np.searchsorted(mine, at))
    found = _of_lines(lined.only(mine), place + 1)
    p50_s, p90_s = _known(*(floats(column[place:]) for column in found))
    return float(p50_s[0]), float(p90_s[0])


def _apart(lined: Lined) -> Iterator[Ints]:
    """The places of each pool; of all of them, where limits or licences join what pools hold."""
    if lined.gate.joins_pools or lined.is_licensed:
        yield ints(np.arange(len(lined.rows)))
        return
    pools = lined.board.snapshot.waiting.pool[lined.rows]
    for pool in np.unique(pools).tolist():
        yield ints(np.flatnonzero(pools == pool))


def _of_lines(lined: Lined, first: int) -> tuple[Floats, Floats]:
    """Of the `first` ones of all: infinite for never."""
    snapshot = lined.board.snapshot
    asked = lined.only(ints(np.arange(first)))
    usual = floats(np.ones(len(snapshot.pools)))
    share = usual if snapshot.run_share is None else snapshot.run_share
    pools = snapshot.waiting.pool[lined.rows]
    learns = bool((share[pools] != 1.0).any())
    learns |= bool(np.isfinite(snapshot.waiting.learnt_s[lined.rows]).any())
    late_s = _Lines(asked, usual, learns=False).starts()
    for_room = np.flatnonzero(asked.is_for_room)
    for at in for_room[np.unique(pools[for_room], return_index=True)[1]].tolist():
        late_s[at] = _first_start(asked, int(asked.rows[at]))
    soon_s = _Lines(asked, share, learns=True).starts() if learns else late_s
    return floats(np.minimum(soon_s, late_s)), late_s


def _known(p50_s: Floats, p90_s: Floats) -> tuple[Floats, Floats]:
    p50_s[~np.isfinite(p90_s)] = p90_s[~np.isfinite(p90_s)] = np.nan
    return p50_s, p90_s


def _first_start(lined: Lined, row: int) -> float:
    board = lined.board
    for head in lined.heads.get(int(board.snapshot.waiting.pool[row]), ()):
        if head.row == row:
            return head.start.start_s
    request = lined.classes.requests[int(lined.classes.of_job[row])]
    stay_s = float(board.snapshot.waiting.remaining_s[row])
    start = earliest_start(board, request, stay_s, board.keeping.binding(Seeker(row, request)))
    return np.inf if start is None else start.start_s


class _Lines:
    """The lines of pools: jobs run a share (by pool) of what they declare; as learnt if it
    `learns`."""

    def __init__(self, lined: Lined, share: Floats, *, learns: bool) -> None:
        self._lined = lined
        self._board = lined.board
        self._share = share
        self._learns = learns
        self._allowances: Allowances | None = None
        if lined.gate.is_limited or lined.is_licensed:
            self._allowances = Allowances(lined.gate, self._board.licences, share)
        self._pools = lined.board.snapshot.waiting.pool[lined.rows]
        self._nodes: dict[int, Ints] = {
            pool: ints(np.flatnonzero(self._board.in_pool[pool]))
            for pool in np.unique(self._pools).tolist()
        }
        self._spans: dict[tuple[int, int, bool, bool, int, int], Spans] = {}

    def starts(self) -> Floats:
        """Of the waiting jobs in order; infinite for never."""
        waiting, rows = self._board.snapshot.waiting, self._lined.rows
        run_s = floats(waiting.remaining_s[rows] * self._share[self._pools])
        if self._learns:
            learnt_s = np.minimum(waiting.learnt_s[rows], waiting.remaining_s[rows])
            run_s = floats(np.where(np.isfinite(waiting.learnt_s[rows]), learnt_s, run_s))
        starts_s = floats(np.full(len(rows), np.inf))
        is_laid = count_ahead(self._pools) < LAID_OUT
        starts_s[is_laid], by_line, by_supply = self._laid_out(ints(np.flatnonzero(is_laid)), run_s)
        if not is_laid.all():
            rest = ints(np.flatnonzero(~is_laid))
            starts_s[rest] = self._behind(rest, run_s[rest], by_line, by_supply)
        return starts_s

    def _behind(
        self, at: Ints, run_s: Floats, by_line: Sequence[Supply], by_supply: Sequence[Supply]
    ) -> Floats:
        """Of those at these places, which are not laid out.

        Who waits for a limit takes no device before those who wait for room: nobody could say when.
        """
        rows = self._lined.rows[at]
        gpus = gpus_of(self._board.snapshot.waiting)[rows]
        is_asking = gpus > 0
        takes = ints(gpus * self._lined.is_for_room[at])
        starts_s = floats(np.full(len(rows), np.inf))
        for pool, left in zip(self._nodes, by_line, strict=True):
            mine = np.flatnonzero((self._pools[at] == pool) & is_asking)
            asked = ints(gpus[mine]), ints(takes[mine]), floats(run_s[mine])
            starts_s[mine] = ready_s(left, *asked)
        if self._allowances is None:
            return starts_s
        kinds, kind = self._kinds(rows, self._allowances)
        new = self._allowances.supplies[len(by_supply) :]
        free = [*by_supply, *(Allowance(supply).left() for supply in new)]
        return floats(np.maximum(starts_s, allowed_by_terms(kind, kinds, run_s, free)))

    def _kinds(self, rows: Ints, allowances: Allowances) -> tuple[list[Terms], Ints]:
        """The terms of each kind of job, and by job its kind: the same class and account."""
        classes, accounts = self._lined.classes, self._board.snapshot.waiting.account[rows]
        class_of = classes.of_job[rows]
        first, kind = group_rows([class_of, accounts])
        columns = class_of[first].tolist(), accounts[first].tolist()
        terms = [
            allowances.terms(classes.requests[row], account)
            for row, account in zip(*columns, strict=True)
        ]
        return terms, kind

    def _laid_out(self, at: Ints, run_s: Floats) -> LaidOut:
        """Of those at these places."""
        waiting, rows = self._board.snapshot.waiting, self._lined.rows[at]
        line_of = {pool: line for line, pool in enumerate(self._nodes)}
        allowed: dict[int, int] = {}
        from_s: list[bytes] = []
        spans: list[Spans] = []
        asked: list[Asked] = []
        class_of = self._lined.classes.of_job[rows].tolist()
        # Who starts is gone within its limit before what is kept begins.
        most_s = waiting.remaining_s[rows] + self._board.keeping.slack_s
        columns = class_of, run_s[at].tolist(), most_s.tolist(), waiting.account[rows].tolist()
        # Jobs of one class and account differ in their times alone.
        known: dict[tuple[int, int], tuple[tuple[int, int, int], int, int, Terms]] = {}
        for class_row, its_run_s, stay_s, account in zip(*columns, strict=True):
            kind = class_row, account
            if kind not in known:
                request = self._lined.classes.requests[class_row]
                if class_row not in allowed and request.gpus and len(self._nodes[request.pool]):
                    allowed[class_row] = len(from_s)
                    from_s.append(self._allowed_s(request).tobytes())
                    spans.append(self._kept_from(request))
                # As it starts: an elastic job begins with as few nodes as it can.
                size = least_size(self._board.snapshot, request)
                terms = NO_TERMS
                if self._allowances is not None:
                    terms = self._allowances.terms(request, account)
                shape, which = (size, request.gpus, request.part_gpus), allowed.get(class_row, NONE)
                known[kind] = shape, which, line_of[request.pool], terms
            shape, which, line, terms = known[kind]
            asked.append((*shape, its_run_s, stay_s, which, line, terms))
        free_s = [self._free_s(nodes) for nodes in self._nodes.values()]
        lines = tuple((table.shape, table.tobytes()) for table in free_s)
        supplies = () if self._allowances is None else tuple(self._allowances.supplies)
        return lay_out(lines, tuple(from_s), tuple(spans), supplies, tuple(asked))

    def _kept_from(self, request: Request) -> Spans:
        """When maintenance, bookings and headroom keep nodes of the pool from it; where they leave
        enough of a node for a share, they are not looked at."""
        who = request.booking, request.uses_headroom
        asked = request.pool, *who, request.is_exclusive, request.gpus, request.model
        if asked not in self._spans:
            board, seeker, nodes = self._board, Seeker(NONE, request), self._nodes[request.pool]
            place_of = np.full(len(board.changes), NONE)
            place_of[nodes] = np.arange(len(nodes))
            found = list[tuple[Ints, float, float]]()
            for one in board.keeping.of_pool(request.pool):
                if one.kind is SlotKind.HEAD or not one.binds(seeker):
                    continue
                left = board.offered_gpus[request.model][one.nodes]
                left = left - one.need[0] * board.keeping.may_meet(one, request.model)
                is_shut = (left < request.gpus) | one.is_whole | request.is_exclusive
                found.append((ints(place_of[one.nodes[is_shut]]), one.from_s, one.until_s))
            kept = Kept.of(len(nodes), found)
            self._spans[asked] = kept.from_s.tobytes(), kept.until_s.tobytes()
        return self._spans[asked]

    def _free_s(self, nodes: Ints) -> Floats:
        """By these nodes and device: when it is free, in the order of rows."""
        board, snapshot = self._board, self._board.snapshot
        now_s = snapshot.now_s
        held_on, _, _, until_s = board.holders()
        share = np.append(self._share[snapshot.nodes.pool[held_on]], 1.0)
        until_s = now_s + (np.append(until_s, now_s) - now_s) * share
        free_s = np.where(board.is_free, now_s, np.maximum(until_s[board.holder], now_s))
        free_s[~board.is_offered] = np.inf
        node = snapshot.devices.node
        counts = np.bincount(node, minlength=len(snapshot.nodes.id))
        number = np.arange(len(node)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((len(counts), int(counts.max(initial=0))), np.inf)
        table[node, number] = free_s
        return np.asarray(table[nodes])

    def _allowed_s(self, request: Request) -> Floats:
        """By node of the pool: from when on cpus and memory allow a share; infinite for never."""
        board = self._board
        capable = without_avoided(board, request, is_capable(board, request, board.offered_gpus))
        short_of_host = (board.free_gpus[request.model] >= request.gpus) & ~board.fits(request)
        now_s = board.snapshot.now_s
        from_s = np.full(len(capable), now_s)
        if (short_of_host & capable).any():
            from_s = np.where(short_of_host, ready_times(board, request), now_s)
        return floats(np.where(capable, from_s, np.inf)[self._nodes[request.pool]])
