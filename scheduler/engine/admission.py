"""Who is admitted: step 6 of `plan_cycle`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept, Seeker
from scheduler.engine.gang import choose_nodes, chosen_for_data, holds_gang, shares_of, start_gang
from scheduler.engine.grouping import group_rows
from scheduler.engine.keeping.heads import Heads
from scheduler.engine.plan import Start
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.clearing import Clearer, Want, kind_and_amounts
from scheduler.engine.shaping.sizes import with_nodes
from scheduler.engine.sharing.fairshare import Line, units_of
from scheduler.engine.sharing.purse import bounds_of, worst_case_s
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.sharing.streams import Doors, Stream
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
    sorted_groups,
)


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
        self.doors = Doors(classes, self.order, self.heads, gate)
        self._kind_of: Ints | None = None
        # By room of classes, in columns: its kind as a number, and its amounts.
        self._asks: Ints | None = None
        self._larger: dict[int, Flags] = {}
        self._cost_per_s: Floats | None = None
        self._price_of: dict[int, Floats] = {}

    def place(self, placed: Iterable[tuple[int, Ints]]) -> None:
        """Start the jobs (rows) that have their nodes already, if their devices are there."""
        place_of = np.argsort(self.order)
        for row, nodes in placed:
            request = self.classes.requests[int(self.classes.of_job[row])]
            request = with_nodes(request, len(nodes))
            # Who runs was chosen past the calendar, of which nothing is left to them.
            kept = self._beside(Seeker(row, request))
            is_kept = any(np.isin(one.nodes, nodes).any() for one in kept)
            if is_kept or not holds_gang(self.board, request, nodes):
                continue
            if self._is_allowed(row, request):
                self._start(int(place_of[row]), row, request, nodes, uses_spare=False)

    def admit(self, ruled_out: Iterable[int]) -> None:
        """Try the first job of every account, the one whose turn it is first; tier by tier.

        Equals trying every job in order: a class that does not fit is closed for the rest of the
        cycle, because the board only shrinks, and so is one that an account's limits stop, because
        accounts only fill up.
        """
        self.doors.close(ruled_out)
        is_open = ~self.is_started & ~self.doors.closed[self.classes.of_job[self.order]]
        self.heads.recall(self.classes, self.order[is_open])
        for streams in self._streams():
            turns, doors = Turns(self.line.shares), self.doors
            for number, stream in enumerate(streams):
                if doors.advance(stream):
                    turns.add(stream.sharer, stream.place, number)
            turns.open()
            may_claim = any(stream.may_claim for stream in streams)
            while (found := turns.first()) is not None:
                if doors.are_shut and not may_claim:
                    break
                stream = streams[found]
                if doors.may_try(stream):
                    self._try(stream)
                    stream.turn += 1
                turns.move(stream.sharer, stream.place if doors.advance(stream) else None)

    def _streams(self) -> Iterator[list[Stream]]:
        """By group of places that compare, what is left of each account in it."""
        places, line = ints(np.flatnonzero(~self.is_started)), self.line
        rows = self.order[places]
        account = self.gate.ruled_by[self.board.snapshot.waiting.account[rows]]
        sharer = line.turn_takers(places)
        group = ints(np.zeros(len(places))) if line.shares is None else line.group[places]
        streams, last = list[Stream](), NONE
        # Sorted at once, so that each stream is a part of a column and no copy.
        order, bounds = sorted_groups(group_rows([group, account, sharer])[1])
        places, rows, first = places[order], rows[order], order[bounds[:-1]]
        class_of = self.classes.of_job[rows]
        listed: list[int] = class_of.tolist()
        whose = zip(*(column[first].tolist() for column in (group, account, sharer)), strict=True)
        for (begin, end), (number, owner, taker) in zip(pairwise(bounds), whose, strict=True):
            if streams and number != last:
                yield streams
                streams = []
            last = number
            here = slice(begin, end)
            streams.append(Stream(owner, taker, places[here], class_of[here], listed[here]))
            streams[-1].may_claim = self.clearer.may_claim(owner)
            if self.gate.has_budgets:
                streams[-1].costs = (
                    self._costs_s(rows[here], class_of[here]),
                    self._prices(class_of[here], owner),
                    floats(self.board.snapshot.waiting.most_cost[rows[here]]),
                )
        yield streams

    def _costs_s(self, rows: Ints, class_of: Ints) -> Floats:
        """By job: GPU-seconds at worst."""
        if self._cost_per_s is None:
            least = [self.gate.least_milli(request) for request in self.classes.requests]
            self._cost_per_s = floats([worst_case_s(milli, 1) for milli in least])
        return floats(self._cost_per_s[class_of] * self.board.snapshot.waiting.time_limit_s[rows])

    def _prices(self, class_of: Ints, account: int) -> Floats:
        """By job: what a second of one of its GPUs costs the account at most."""
        purse = self.gate.purse
        whose = purse.list_of(account)
        if whose not in self._price_of:
            prices = [purse.price(request, account) for request in self.classes.requests]
            self._price_of[whose] = floats(prices)
        return floats(self._price_of[whose][class_of])

    def _try(self, stream: Stream) -> None:
        """Start the job if it may and fits; else close what cannot start any more."""
        class_row, place = int(stream.class_of[stream.turn]), stream.place
        request, row = self.classes.requests[class_row], int(self.order[place])
        is_shut = self.doors.is_shut(class_row, row)
        # Who was promised a start may have a place of his own.
        may_claim_only = is_shut and not self.heads.is_promised(row)
        gone_s = self.heads.is_gone_at_s(row)
        if may_claim_only and self.clearer.has_failed(Want(row, request, gone_s)):
            self._claim_no_more(stream, class_row)
            return
        who = self.heads.seeker(row, request)
        if self.gate.bars(request, stream.account):
            self._close_for(stream.account, class_row)
            return
        bounds = bounds_of(self.board.snapshot.waiting, row)
        request = self.gate.sized(request, stream.account, bounds)
        who = who if request is who.request else replace(who, request=request)
        nodes = None if self.doors.full[class_row] else choose_nodes(self.board, request)
        fits = nodes is not None
        beside = self._beside(who)
        if fits and beside:
            nodes = choose_nodes(self.board, request, beside)
        if nodes is not None:
            self._start(place, row, request, nodes, uses_spare=bool(beside))
            self.heads.note_passing(who)
        elif self._clear(place, who, beside, by_tier=not is_shut):
            self.heads.note_passing(who, has_cleared=True)
        elif self.heads.protect(who):
            self.heads.note_passing(who)
        elif fits:
            last_s = max((one.from_s for one in beside), default=-np.inf)
            gone_by_s = min(float(self.doors.gone_by_s[class_row]), last_s)
            self.doors.let_in_until(self.classes.alike(class_row), gone_by_s)
            self._claim_no_more(stream, class_row)
        else:
            alike = self.classes.alike(class_row)
            self.doors.fill(alike)
            if stream.may_claim:
                self.doors.close_for(stream.account, alike)
                self._claim_no_more(stream, class_row)

    def _claim_no_more(self, stream: Stream, class_row: int) -> None:
        """Nothing it may take back is enough for the class where that is full or a job is late.

        Nor for larger ones that fit nowhere; of those that fit but for what is kept, others may be
        in the way.
        """
        if stream.may_claim:
            is_full = self.doors.full[class_row]
            alike = self._no_smaller(class_row) if is_full else self.classes.alike(class_row)
            self.doors.claim_no_more(stream.account, alike)

    def _close_for(self, account: int, class_row: int) -> None:
        """Accounts look at pool, model and GPUs alone: all classes like it are closed for it."""
        if self._kind_of is None:
            self._kind_of = _kinds_for_accounts(self.gate, self.classes.requests)
        self.doors.close_for(account, flags(self._kind_of == self._kind_of[class_row]))

    def _no_smaller(self, class_row: int) -> Flags:
        """Classes that ask for the same as this one, or for more of it."""
        room = int(self.classes.room[class_row])
        if room in self._larger:
            return self._larger[room]
        if self._asks is None:
            kinds = dict[Request, int]()
            first = np.unique(self.classes.room, return_index=True)[1].tolist()
            asks = (kind_and_amounts(self.classes.requests[row]) for row in first)
            rows = [(kinds.setdefault(kind, len(kinds)), *amounts) for kind, amounts in asks]
            self._asks = ints(np.array(rows)).reshape(len(rows), -1).T
        larger = flags(self._asks[0] == self._asks[0, room])
        for amounts in self._asks[1:]:
            larger &= amounts >= amounts[room]
        return self._larger.setdefault(room, flags(larger[self.classes.room]))

    def _is_allowed(self, row: int, request: Request) -> bool:
        waiting = self.board.snapshot.waiting
        account, bounds = int(waiting.account[row]), bounds_of(waiting, row)
        return not self.gate.bars(request, account) and self.gate.is_paid(request, account, bounds)

    def _start(
        self, place: int, row: int, request: Request, nodes: Ints, *, uses_spare: bool
    ) -> None:
        snapshot, job = self.board.snapshot, int(self.board.snapshot.waiting.id[row])
        until_s = snapshot.now_s + float(snapshot.waiting.remaining_s[row])
        why_here = dict[str, object]()
        if request.dataset != NONE:
            beside = self._beside(Seeker(row, request))
            why_here = chosen_for_data(self.board, request, nodes, beside)
        start = start_gang(self.board, job, request, nodes, until_s, uses_spare=uses_spare)
        start = replace(start, why_here=why_here) if why_here else start
        if self.board.keeping.of_pool(request.pool):
            gone_s = self.heads.is_gone_at_s(row)
            self.board.keeping.charge(request.pool, shares_of(request, nodes), gone_s)
        self._count(place, row, request, start)

    def _beside(self, who: Seeker) -> list[Kept]:
        """What the job has to leave alone if it starts now."""
        if not self.board.keeping.of_pool(who.request.pool):
            return []
        return self.board.keeping.binding(who, self.heads.is_gone_at_s(who.row))

    def _count(self, place: int, row: int, request: Request, start: Start) -> None:
        self.starts.append(start)
        self.started.append(row)
        self.is_started[place] = True
        waiting = self.board.snapshot.waiting
        if self.line.shares is not None:
            weight = self.gate.weights[int(waiting.model[row])]
            self.line.charge(int(self.line.sharers[row]), units_of(start, weight))
        self.gate.charge(request, int(waiting.account[row]), bounds_of(waiting, row), start)

    def _clear(self, place: int, who: Seeker, beside: Sequence[Kept], *, by_tier: bool) -> bool:
        """Start it in the room of others, if some may be stopped for it and that is enough.

        Who was promised a start itself leaves the promises to others alone, but not those to lower
        tiers, whose jobs it may stop as well.
        """
        row, tier = who.row, self.board.snapshot.waiting.tier
        minded = [one for one in beside if not one.is_promise or tier[one.owner] >= tier[row]]
        want = Want(row, who.request, self.heads.is_gone_at_s(row), minded)
        cleared = self.clearer.clear(want, by_tier=by_tier)
        if cleared is not None:
            self._count(place, row, cleared.request, cleared.start)
        return cleared is not None


def _kinds_for_accounts(gate: Gate, requests: Sequence[Request]) -> Ints:
    """By class a number; limits and caps see no difference between classes of the same one."""
    columns = zip(*((r.pool, r.model, gate.least_milli(r)) for r in requests), strict=True)
    return group_rows([ints(column) for column in columns])[1]
