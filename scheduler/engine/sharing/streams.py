"""The jobs of one account in order, and which of them may still be tried."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.engine.keeping.heads import Heads
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import Classes, Flags, Floats, Ints, flags, floats

# How many places are looked at together, at first, for the next one that may start.
_STRIDE = 64


class Stream:
    """The jobs that one account rules and one takes the turns of, in order; tried up to `turn`.

    `may_claim`: it may take back what it lent. `costs`: GPU-seconds of each at worst, what one
    costs, and what each costs at most; None if nobody has a budget.
    """

    def __init__(
        self, account: int, sharer: int, places: Ints, class_of: Ints, few: list[int]
    ) -> None:
        """`few`: `class_of` once more; a list is looked at one by one faster than a column."""
        self.account = account
        self.sharer = sharer
        self.places = places
        self.class_of = class_of
        self.costs: tuple[Floats, Floats, Floats] | None = None
        self.turn = 0
        self.may_claim = False
        # Few jobs are looked at one by one, which takes less than a column of them does.
        self.few: list[int] | None = few if len(few) <= _STRIDE else None

    @property
    def place(self) -> int:
        """Of the job whose turn it is."""
        return int(self.places[self.turn])


class Doors:
    """Which classes may still start: a class that is shut for somebody stays so for the cycle.

    `closed`: for good. `full`: they fit nowhere, so only who takes back what it lent may still
    start. `gone_by_s`: they fit but for what is kept, so of those who are *late*, not gone by then,
    again only who takes back.
    """

    def __init__(self, classes: Classes, order: Ints, heads: Heads, gate: Gate) -> None:
        size = len(classes.requests)
        self._classes = classes
        self._order = order
        self._heads = heads
        self._gate = gate
        self.closed: Flags = flags(np.zeros(size))
        self.full: Flags = flags(np.zeros(size))
        self.gone_by_s: Floats = floats(np.full(size, np.inf))
        # The same for single questions: an array takes ten times as long to answer one.
        self._is_closed, self._is_full = [False] * size, [False] * size
        self._may_be_late = [True] * size
        self._left = size
        # Classes that an account's limits stop.
        self._closed_for = Shut(size)
        # Classes for which an account takes nothing back.
        self._unclaimed = Shut(size)

    @property
    def are_shut(self) -> bool:
        """Whether nobody can start any more, but for who may claim."""
        return not self._left and not self._heads.has_promised

    def close(self, rows: Iterable[int]) -> None:
        """For everybody."""
        for row in rows:
            self._left -= not (self._is_closed[row] or self._is_full[row])
            self.closed[row] = self._is_closed[row] = True

    def fill(self, alike: Flags) -> None:
        """They fit nowhere any more."""
        for row in np.flatnonzero(alike).tolist():
            self._left -= not (self._is_closed[row] or self._is_full[row])
            self.full[row] = self._is_full[row] = True

    def let_in_until(self, alike: Flags, gone_by_s: float) -> None:
        """They fit only until something kept begins."""
        self.gone_by_s[alike] = gone_by_s
        for row in np.flatnonzero(alike).tolist():
            self._may_be_late[row] = not np.isfinite(gone_by_s)

    def close_for(self, account: int, alike: Flags) -> None:
        """For whom the account rules."""
        self._closed_for.join(account, alike)

    def is_shut(self, class_row: int, row: int) -> bool:
        """Whether the waiting row's class is full, or it is late."""
        return self._is_full[class_row] or self._is_late(row, class_row)

    def claim_no_more(self, account: int, alike: Flags) -> None:
        """Nobody whom the account rules takes anything back for these."""
        self._unclaimed.join(account, alike)

    def may_try(self, stream: Stream) -> bool:
        """Whether the job whose turn it is in the stream may still be tried."""
        if self._is_plain(stream):
            return self._is_open(stream, stream.turn)
        return bool(self._open(stream, slice(stream.turn, stream.turn + 1))[0])

    def advance(self, stream: Stream) -> bool:
        """Go on to the first turn from this one on that may be tried; false if there is none."""
        if self._is_plain(stream):
            # In a long line the next job may mostly be tried, and else columns find who may.
            if stream.few is not None:
                return self._advance_few(stream, stream.few)
            if stream.turn < len(stream.places) and self._is_open(stream, stream.turn):
                return True
        stride = _STRIDE
        while stream.turn < len(stream.places):
            found = np.flatnonzero(self._open(stream, slice(stream.turn, stream.turn + stride)))
            if len(found):
                stream.turn += int(found[0])
                return True
            stream.turn += stride
            stride *= 2
        return False

    def _advance_few(self, stream: Stream, class_of: list[int]) -> bool:
        """As `advance`, one by one; what is the same for all of them is looked up once."""
        closed, unclaimed = self._shut_for(stream)
        is_closed, is_full = self._is_closed, self._is_full
        for turn in range(stream.turn, len(class_of)):
            row = class_of[turn]
            if is_closed[row] or closed[row]:
                continue
            may_claim = unclaimed is not None and not unclaimed[row]
            if may_claim or not (is_full[row] or self._is_late_at(stream, turn, row)):
                stream.turn = turn
                return True
        stream.turn = len(class_of)
        return False

    def _shut_for(self, stream: Stream) -> tuple[bytes, bytes | None]:
        """By class, what is shut for its account, and for what it takes nothing back; None: all."""
        closed = self._closed_for.each(stream.account)
        return closed, self._unclaimed.each(stream.account) if stream.may_claim else None

    def _is_plain(self, stream: Stream) -> bool:
        return stream.costs is None and not self._heads.has_promised

    def _is_open(self, stream: Stream, turn: int) -> bool:
        """As `_open`, of one turn of a stream that has no promises nor budgets."""
        class_row = int(stream.class_of[turn]) if stream.few is None else stream.few[turn]
        if self._is_closed[class_row]:
            return False
        closed, unclaimed = self._shut_for(stream)
        if closed[class_row]:
            return False
        if unclaimed is not None and not unclaimed[class_row]:
            return True
        return not (self._is_full[class_row] or self._is_late_at(stream, turn, class_row))

    def _is_late_at(self, stream: Stream, turn: int, class_row: int) -> bool:
        """As `_is_late`, of the job of that turn."""
        if self._may_be_late[class_row]:
            return False
        return self._is_late(int(self._order[stream.places[turn]]), class_row)

    def _is_late(self, row: int, class_row: int) -> bool:
        """Whether the waiting row is still there when what is kept of its class's room begins."""
        if self._may_be_late[class_row]:
            return False
        return bool(self._heads.is_gone_at_s(row) > self.gone_by_s[class_row])

    def _open(self, stream: Stream, turns: slice) -> Flags:
        """Which of these jobs are of an open class, end in time if they must, and are paid for."""
        class_of = stream.class_of[turns]
        is_shut = self.full[class_of]
        must_end = ~is_shut & np.isfinite(self.gone_by_s[class_of])
        if must_end.any():
            rows = self._order[stream.places[turns]][must_end]
            is_shut[must_end] = self._heads.gone_s(rows) > self.gone_by_s[class_of[must_end]]
        if stream.may_claim:
            is_shut &= self._unclaimed.column(stream.account)[class_of]
        is_open = ~(self.closed[class_of] | is_shut)
        # Who was promised a start may have a place of his own.
        if self._heads.has_promised:
            is_open |= self._heads.are_promised(self._order[stream.places[turns]])
        is_open &= ~self._closed_for.column(stream.account)[class_of]
        if stream.costs is not None:
            cost_s, price, most = (floats(column[turns]) for column in stream.costs)
            is_open &= self._gate.purse.pay_for(stream.account, cost_s, price, most)
        return flags(is_open)


class Shut:
    """Classes that are shut for some accounts, as columns and, for single questions, as bytes: an
    array takes ten times as long to answer one.
    """

    def __init__(self, size: int) -> None:
        self._nothing: Flags = flags(np.zeros(size))
        self._none_shut = bytes(size)
        self._columns: dict[int, Flags] = {}
        self._bytes: dict[int, bytes] = {}

    def join(self, account: int, more: Flags) -> None:
        """These too from now on."""
        self._columns[account] = column = flags(self.column(account) | more)
        self._bytes[account] = column.tobytes()

    def column(self, account: int) -> Flags:
        """By class."""
        return self._columns.get(account, self._nothing)

    def each(self, account: int) -> bytes:
        """By class, one or zero."""
        return self._bytes.get(account, self._none_shut)
