"""Who is admitted: step 6 of `plan_cycle`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept, Seeker
from scheduler.engine.gang import choose_nodes, holds_gang, shares_of, start_gang
from scheduler.engine.grouping import group_rows
from scheduler.engine.keeping.heads import Heads
from scheduler.engine.plan import Start
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.clearing import Clearer
from scheduler.engine.sharing.fairshare import Line, units_of
from scheduler.engine.sharing.quota import Gate, kinds_for_accounts, worst_case_s
from scheduler.engine.sharing.turns import Turns
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
    rows_by_group,
)

# How many places are looked at together, at first, for the next one that may start.
_STRIDE = 64


class _Stream:
    """The jobs that one account rules and one takes the turns of, in order; tried up to `turn`.

    `may_claim`: it may take back what it lent. `cost_s`: GPU-seconds of each at worst, `price` of
    each; None if nobody has a budget.
    """

    def __init__(self, account: int, sharer: int, places: Ints, class_of: Ints) -> None:
        self.account = account
        self.sharer = sharer
        self.places = places
        self.class_of = class_of
        self.cost_s: Floats | None = None
        self.price: Floats | None = None
        self.turn = 0
        self.may_claim = False

    @property
    def place(self) -> int:
        """Of the job whose turn it is."""
        return int(self.places[self.turn])


class Admission:
    """A *place* is a position in `order`; `started` are the waiting rows of `starts`."""

    def __init__(
        self, board: Board, classes: Classes, line: Line, gate: Gate, policy: Policy
    ) -> None:
        self.board = board
        self.classes = classes
        self.line = line
        self.gate = gate
        self.order = line.order
        self.policy = policy
        self.starts: list[Start] = []
        self.started: list[int] = []
        self.clearer = Clearer(board, gate, policy)
        self.heads = Heads(board, policy)
        self.is_started = flags(np.zeros(len(self.order)))
        size = len(classes.requests)
        self._closed: Flags = flags(np.zeros(size))
        # Classes that fit nowhere: only who takes back what it lent may still start.
        self._full: Flags = flags(np.zeros(size))
        # Classes that fit but for what is kept: only who is gone by then may still start.
        self._gone_by_s: Floats = floats(np.full(size, np.inf))
        self._kind_of: Ints | None = None
        # Classes that an account's limits stop.
        self._closed_for: dict[int, Flags] = {}
        self._cost_per_s: Floats | None = None
        self._price_of: Floats | None = None

    def place(self, placed: Iterable[tuple[int, Ints]]) -> None:
        """Start the jobs (rows) that have their nodes already, if their devices are there."""
        for row, nodes in placed:
            request = self.classes.requests[int(self.classes.of_job[row])]
            # Who runs was chosen past the calendar, of which nothing is left to them.
            kept = self._beside(Seeker(row, request))
            is_kept = any(np.isin(one.nodes, nodes).any() for one in kept)
            if is_kept or not holds_gang(self.board, request, nodes):
                continue
            if self._is_allowed(row, request):
                place = int(np.flatnonzero(self.order == row)[0])
                self._start(place, row, request, nodes, uses_spare=False)

    def admit(self, ruled_out: Iterable[int]) -> None:
        """Try the first job of every account, the one whose turn it is first; tier by tier.

        Equals trying every job in order: a class that does not fit is closed for the rest of the
        cycle, because the board only shrinks, and so is one that an account's limits stop, because
        accounts only fill up.
        """
        self._closed[list(ruled_out)] = True
        is_open = ~self.is_started & ~self._closed[self.classes.of_job[self.order]]
        self.heads.recall(self.classes, self.order[is_open])
        for streams in self._streams():
            turns = Turns(self.line.shares)
            for number, stream in enumerate(streams):
                if self._advance(stream):
                    turns.add(stream.sharer, stream.place, number)
            while (found := turns.first()) is not None:
                stream = streams[found]
                if self._may_try(stream):
                    self._try(stream)
                    stream.turn += 1
                turns.move(stream.sharer, stream.place if self._advance(stream) else None)

    def _streams(self) -> Iterator[list[_Stream]]:
        """By group of places that compare, what is left of each account in it."""
        places, line = ints(np.flatnonzero(~self.is_started)), self.line
        rows = self.order[places]
        account = self.gate.ruled_by[self.board.snapshot.waiting.account[rows]]
        sharer = line.turn_takers(places)
        group = ints(np.zeros(len(places))) if line.shares is None else line.group[places]
        class_of, streams, last = self.classes.of_job[rows], list[_Stream](), NONE
        for _, members in rows_by_group(group_rows([group, account, sharer])[1]):
            first = members[0]
            if streams and group[first] != last:
                yield streams
                streams = []
            last = group[first]
            whose = int(account[first]), int(sharer[first])
            streams.append(_Stream(*whose, places[members], class_of[members]))
            streams[-1].may_claim = self.clearer.may_claim(whose[0])
            if self.gate.has_budgets:
                streams[-1].cost_s = self._costs_s(rows[members], class_of[members])
                streams[-1].price = self._prices(class_of[members])
        yield streams

    def _costs_s(self, rows: Ints, class_of: Ints) -> Floats:
        """By job: GPU-seconds at worst."""
        if self._cost_per_s is None:
            least = [self.gate.least_milli(request) for request in self.classes.requests]
            self._cost_per_s = floats([worst_case_s(milli, 1) for milli in least])
        return floats(self._cost_per_s[class_of] * self.board.snapshot.waiting.time_limit_s[rows])

    def _prices(self, class_of: Ints) -> Floats:
        """By job: what a second of one of its GPUs costs at most."""
        if self._price_of is None:
            purse = self.gate.purse
            self._price_of = floats([purse.price(request) for request in self.classes.requests])
        return floats(self._price_of[class_of])

    def _may_try(self, stream: _Stream) -> bool:
        return bool(self._open(stream, slice(stream.turn, stream.turn + 1))[0])

    def _advance(self, stream: _Stream) -> bool:
        """Go on to the first turn from this one on that may be tried; false if there is none."""
        stride = _STRIDE
        while stream.turn < len(stream.places):
            found = np.flatnonzero(self._open(stream, slice(stream.turn, stream.turn + stride)))
            if len(found):
                stream.turn += int(found[0])
                return True
            stream.turn += stride
            stride *= 2
        return False

    def _open(self, stream: _Stream, turns: slice) -> Flags:
        """Which of these jobs are of an open class, end in time if they must, and are paid for."""
        class_of = stream.class_of[turns]
        is_open = ~self._closed[class_of]
        if not stream.may_claim:
            is_open &= ~self._full[class_of]
        must_end = is_open & np.isfinite(self._gone_by_s[class_of])
        if must_end.any():
            rows = self.order[stream.places[turns]][must_end]
            is_open[must_end] = self.heads.gone_s(rows) <= self._gone_by_s[class_of[must_end]]
        # Who was promised a start may have a place of his own.
        if self.heads.has_promised:
            is_open |= self.heads.are_promised(self.order[stream.places[turns]])
        closed = self._closed_for.get(stream.account)
        if closed is not None:
            is_open &= ~closed[class_of]
        if stream.cost_s is not None and stream.price is not None:
            cost_s, price = stream.cost_s[turns], stream.price[turns]
            is_open &= self.gate.purse.pay_for(stream.account, cost_s, price)
        return flags(is_open)

    def _try(self, stream: _Stream) -> None:
        """Start the job if it may and fits; else close what cannot start any more."""
        class_row, place = int(stream.class_of[stream.turn]), stream.place
        request, row = self.classes.requests[class_row], int(self.order[place])
        who = self.heads.seeker(row, request)
        if self.gate.bars(request, stream.account):
            self._close_for(stream.account, class_row)
            return
        limit_s = int(self.board.snapshot.waiting.time_limit_s[row])
        request = self.gate.sized(request, stream.account, limit_s)
        nodes = None if self._full[class_row] else choose_nodes(self.board, request)
        fits = nodes is not None
        who = replace(who, request=request)
        beside = self._beside(who)
        if fits and beside:
            nodes = choose_nodes(self.board, request, beside)
        if nodes is not None:
            self._start(place, row, request, nodes, uses_spare=bool(beside))
            self.heads.note_passing(who)
        elif (not fits and self._clear(place, row, request)) or self.heads.protect(who):
            self.heads.note_passing(who)
        elif fits:
            last_s = max((one.from_s for one in beside), default=-np.inf)
            gone_by_s = min(self._gone_by_s[class_row], last_s)
            self._gone_by_s[self.classes.alike(class_row)] = gone_by_s
        else:
            alike = self.classes.alike(class_row)
            self._full[alike] = True
            if stream.may_claim:
                self._close_here(stream.account, alike)

    def _close_for(self, account: int, class_row: int) -> None:
        """Accounts look at pool, model and GPUs alone: all classes like it are closed for it."""
        if self._kind_of is None:
            self._kind_of = kinds_for_accounts(self.gate, self.classes.requests)
        self._close_here(account, flags(self._kind_of == self._kind_of[class_row]))

    def _close_here(self, account: int, alike: Flags) -> None:
        closed = self._closed_for.get(account)
        self._closed_for[account] = alike if closed is None else flags(closed | alike)

    def _is_allowed(self, row: int, request: Request) -> bool:
        waiting = self.board.snapshot.waiting
        account, limit_s = int(waiting.account[row]), int(waiting.time_limit_s[row])
        return not self.gate.bars(request, account) and self.gate.is_paid(request, account, limit_s)

    def _start(
        self, place: int, row: int, request: Request, nodes: Ints, *, uses_spare: bool
    ) -> None:
        snapshot, job = self.board.snapshot, int(self.board.snapshot.waiting.id[row])
        until_s = snapshot.now_s + float(snapshot.waiting.remaining_s[row])
        start = start_gang(self.board, job, request, nodes, until_s, uses_spare=uses_spare)
        gone_s = float(self.heads.gone_s(ints([row]))[0])
        self.board.keeping.charge(request.pool, shares_of(request, nodes), gone_s)
        self._count(place, row, request, start)

    def _beside(self, who: Seeker) -> list[Kept]:
        """What the job has to leave alone if it starts now."""
        return self.board.keeping.binding(who, float(self.heads.gone_s(ints([who.row]))[0]))

    def _count(self, place: int, row: int, request: Request, start: Start) -> None:
        self.starts.append(start)
        self.started.append(row)
        self.is_started[place] = True
        waiting = self.board.snapshot.waiting
        weight = self.gate.weights[int(waiting.model[row])]
        self.line.charge(int(self.line.sharers[row]), units_of(start, weight))
        account, limit_s = int(waiting.account[row]), int(waiting.time_limit_s[row])
        self.gate.charge(request, account, limit_s, start)

    def _clear(self, place: int, row: int, request: Request) -> bool:
        """Start it in the room of others, if some may be stopped for it and that is enough."""
        is_full = bool(self._full[self.classes.of_job[row]])
        beside = self._beside(Seeker(row, request))
        cleared = self.clearer.clear(row, request, beside, by_tier=not is_full)
        if cleared is not None:
            self._count(place, row, cleared.request, cleared.start)
        return cleared is not None
