"""Guaranteed against borrowed: which devices a team holds above its guarantee, second by second.

At every instant the devices a team holds are looked at in order: older attempt first, then by
device. Each is guaranteed where the guarantees that cover it have room for all of it, the most
particular guarantee first (pool and flavour, pool, flavour, any); else it is borrowed. A part of a
card takes its thousandths. Where nobody is guaranteed anything at that instant nothing is lent, so
nothing is borrowed either.

The sweep looks again only when something changes: a device taken or given back, a guarantee that
begins or ends. `tests/ledger/test_tiers.py` compares it with looking at every second anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

Cell = tuple[str, str]
# Pool, flavour and milli-GPU of devices that are alike here.
_Kind = tuple[str, str, int]
_WHOLE = 1000
Intervals = dict[tuple[int, int], list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """GPUs a team can claim back within `[start_s, end_s)`; empty pool or flavour: any.

    Those of one scope add up: a quota, and the grants on it.
    """

    team: str
    pool: str
    flavour: str
    gpus: int
    start_s: int
    end_s: int | None = None

    def covers(self, cell: Cell) -> bool:
        """Whether it counts for a pool and flavour."""
        return self.pool in ("", cell[0]) and self.flavour in ("", cell[1])

    def holds_at(self, at_s: int) -> bool:
        """Whether it is in force at a second."""
        return self.start_s <= at_s and (self.end_s is None or at_s < self.end_s)


class Stay(NamedTuple):
    """A device held by an attempt, seconds, milli-GPU; attempts are numbered by age."""

    attempt: int
    device: int
    pool: str
    flavour: str
    start_s: int
    end_s: int
    milli: int = _WHOLE


@dataclass(slots=True)
class _Held:
    """What an attempt holds now: devices by kind, and the milli-GPU it took of which guarantee."""

    devices: dict[_Kind, list[int]] = field(default_factory=dict)
    took: dict[Cell, int] = field(default_factory=dict)


def borrowed(
    stays: Iterable[Stay], team: str, guarantees: Sequence[Guarantee], start_s: int, end_s: int
) -> Intervals:
    """When each (attempt, device) of a team was borrowed, within a window, in order of time."""
    given = [g for g in guarantees if g.gpus > 0]
    if not given:
        return {}
    sweep = _Sweep(team, given)
    for at_s, changes in groupby(_changes(stays, given, start_s, end_s), key=lambda c: c[0]):
        sweep.step(at_s, list(changes))
    sweep.finish(end_s)
    return sweep.found


_ENDS, _STARTS, _MOVES = 0, 1, 2
_Change = tuple[int, int, Stay | None]


def _changes(
    stays: Iterable[Stay], guarantees: Sequence[Guarantee], start_s: int, end_s: int
) -> list[_Change]:
    """Everything that changes, in order of time; what lies outside the window is clipped."""
    found: list[_Change] = [(start_s, _MOVES, None)]
    for stay in stays:
        begin, end = max(stay.start_s, start_s), min(stay.end_s, end_s)
        if begin < end:
            found += [(begin, _STARTS, stay), (end, _ENDS, stay)]
    moments = {g.start_s for g in guarantees} | {g.end_s for g in guarantees if g.end_s is not None}
    found += [(moment, _MOVES, None) for moment in moments if start_s < moment < end_s]
    found.sort(key=lambda change: change[:2])
    return found


class _Sweep:
    """The state between two changes. `left`: room in the team's guarantees, milli-GPU by scope;
    `sizes`: how many devices of which milli-GPU are held."""

    def __init__(self, team: str, guarantees: Sequence[Guarantee]) -> None:
        self.found: Intervals = {}
        self._team = team
        self._guarantees = guarantees
        self._in_force: list[Guarantee] = []
        self._order: list[int] = []
        self._short: list[int] = []
        self._held: dict[int, _Held] = {}
        self._left: dict[Cell, int] = {}
        self._sizes: Counter[int] = Counter()
        self._since: dict[tuple[int, int], int] = {}

    def step(self, at_s: int, changes: Sequence[_Change]) -> None:
        """Apply all changes of one second; who is older than all that changed keeps its tier.

        The youngest that comes takes what is left. Where the team has one guarantee at most and
        holds devices of one size, who goes leaves what it took to the oldest that borrow. In every
        other case the team is looked at anew.
        """
        is_simple = True
        ending = [stay for _, kind, stay in changes if kind == _ENDS and stay is not None]
        starting = [stay for _, kind, stay in changes if kind == _STARTS and stay is not None]
        if any(kind == _MOVES for _, kind, _ in changes):
            self._in_force = [g for g in self._guarantees if g.holds_at(at_s)]
            is_simple = False
        is_simple = self._take_away(ending, at_s) and is_simple
        oldest_new = self._order[-1] if self._order else -1
        new = self._bring(starting)
        is_simple = is_simple and all(attempt > oldest_new for attempt in new)
        if not is_simple:
            self._left = {}
            for g in self._in_force:
                if g.team == self._team:
                    scope = (g.pool, g.flavour)
                    self._left[scope] = self._left.get(scope, 0) + g.gpus * _WHOLE
        elif ending:
            self._hand_on(at_s)
        for attempt in new if is_simple else self._order:
            self._assign(attempt, at_s)

    def finish(self, end_s: int) -> None:
        """Close what is still borrowed at the window's end."""
        for key in list(self._since):
            self._close(key, end_s)

    def _take_away(self, ending: Sequence[Stay], at_s: int) -> bool:
        """Returns whether what is freed can be handed on without looking at everybody."""
        is_simple = not ending or len(self._left) <= 1
        freeing: list[int] = []
        for stay in ending:
            self._close((stay.attempt, stay.device), at_s)
            self._count(stay.milli, -1)
            held = self._held[stay.attempt]
            kind = (stay.pool, stay.flavour, stay.milli)
            held.devices[kind].remove(stay.device)
            if not held.devices[kind]:
                del held.devices[kind]
            if not held.devices:
                if held.took:
                    freeing.append(stay.attempt)
                del self._held[stay.attempt]
                self._order.pop(bisect_left(self._order, stay.attempt))
                self._give_back(held)
                self._mark(stay.attempt, is_short=False)
        gone = {stay.attempt for stay in ending}
        if any(attempt in self._held for attempt in gone):
            return False
        return is_simple and not (len(self._sizes) > 1 and self._may_swap(freeing))

    def _may_swap(self, freeing: Sequence[int]) -> bool:
        """Whether a large device may fit at its turn now, and a small one behind it no more."""
        return bool(freeing and self._short) and self._short[-1] > min(freeing)

    def _count(self, milli: int, change: int) -> None:
        self._sizes[milli] += change
        if not self._sizes[milli]:
            del self._sizes[milli]

    def _give_back(self, held: _Held) -> None:
        for scope, count in held.took.items():
            self._left[scope] = self._left.get(scope, 0) + count

    def _hand_on(self, at_s: int) -> None:
        """Let the oldest that borrow have what is left: with one guarantee all others keep theirs.

        Who borrows although enough was left at its turn is not covered by that guarantee.
        """
        least = min(self._sizes, default=0)
        for attempt in list(self._short):
            if sum(self._left.values()) < least:
                return
            self._give_back(self._held[attempt])
            self._assign(attempt, at_s)

    def _mark(self, attempt: int, *, is_short: bool) -> None:
        """Keep who borrows in order of age."""
        place = bisect_left(self._short, attempt)
        is_known = place < len(self._short) and self._short[place] == attempt
        if is_short and not is_known:
            self._short.insert(place, attempt)
        elif is_known and not is_short:
            del self._short[place]

    def _bring(self, starting: Sequence[Stay]) -> list[int]:
        """Returns the attempts that hold more than before, the oldest first."""
        for stay in starting:
            if stay.attempt not in self._held:
                self._held[stay.attempt] = _Held()
                insort(self._order, stay.attempt)
            devices = self._held[stay.attempt].devices
            insort(devices.setdefault((stay.pool, stay.flavour, stay.milli), []), stay.device)
            self._count(stay.milli, 1)
        return sorted({stay.attempt for stay in starting})

    def _assign(self, attempt: int, at_s: int) -> None:
        """Give an attempt what is left, kind by kind."""
        held = self._held[attempt]
        held.took = {}
        is_short = False
        for kind, devices in sorted(held.devices.items()):
            count = self._guaranteed(kind, len(devices), held.took)
            for device in devices[:count]:
                self._close((attempt, device), at_s)
            for device in devices[count:]:
                self._since.setdefault((attempt, device), at_s)
                is_short = True
        self._mark(attempt, is_short=is_short)

    def _guaranteed(self, kind: _Kind, wanted: int, took: dict[Cell, int]) -> int:
        """How many of so many devices there is room for; that is taken."""
        pool, flavour, milli = kind
        if not any(g.covers((pool, flavour)) for g in self._in_force):
            return wanted
        left = self._left
        scopes = ((pool, flavour), (pool, ""), ("", flavour), ("", ""))
        room = [(scope, left[scope]) for scope in scopes if left.get(scope)]
        count = min(wanted, sum(part for _, part in room) // milli) if room else 0
        rest = count * milli
        for scope, most in room:
            part = min(rest, most)
            if part:
                left[scope] -= part
                took[scope] = took.get(scope, 0) + part
                rest -= part
        return count

    def _close(self, key: tuple[int, int], at_s: int) -> None:
        since = self._since.pop(key, None)
        if since is not None and since < at_s:
            self.found.setdefault(key, []).append((since, at_s))


def pieces(
    start_s: int, end_s: int, intervals: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, bool]]:
    """`[start_s, end_s)` cut at these intervals; True: within one. They are in order of time."""
    at_s = start_s
    for begin, end in intervals:
        if end <= at_s or begin >= end_s:
            continue
        if at_s < begin:
            yield at_s, begin, False
        yield max(begin, at_s), min(end, end_s), True
        at_s = min(end, end_s)
    if at_s < end_s:
        yield at_s, end_s, False


def guaranteed_seconds(
    guarantees: Iterable[Guarantee], pool: str, start_s: int, end_s: int
) -> dict[str, int]:
    """GPU-seconds each team was guaranteed of a pool in a window; any pool counts for each."""
    found: dict[str, int] = {}
    for g in guarantees:
        if g.pool in ("", pool):
            until = end_s if g.end_s is None else min(g.end_s, end_s)
            seconds = g.gpus * max(0, until - max(g.start_s, start_s))
            if seconds:
                found[g.team] = found.get(g.team, 0) + seconds
    return found
