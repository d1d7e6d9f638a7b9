"""Guaranteed against borrowed: the sweep equals looking at every second anew."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from scheduler.ledger.tiers import Guarantee, Stay, borrowed, guaranteed_seconds, pieces

END = 60
POOLS, FLAVOURS = ("1", "2"), ("h", "a", "q", "m")
# Thousandths of a card: two models of whole ones, quarters, and instances of several sizes.
MILLI = {"h": (1000,), "a": (1000,), "q": (250,), "m": (143, 333, 500)}


def world(seed: int) -> tuple[list[Stay], list[Guarantee]]:
    """A minute of a small team: up to nine attempts of one to four devices, and guarantees.

    Half of these teams hold cards of one size alone.
    """
    chance = random.Random(seed)
    flavours = chance.choice((FLAVOURS, FLAVOURS, FLAVOURS[:2], ("q",)))
    stays = []
    for attempt in range(chance.randrange(1, 10)):
        begin = min(END, attempt * chance.randrange(1, 9))
        cell = (chance.choice(POOLS), chance.choice(flavours))
        whole = begin + chance.randrange(1, 40)
        for place in range(chance.randrange(1, 5)):
            # Now and then a rank ends before the others, or is of another model.
            end = whole if chance.random() < 0.8 else max(begin, whole - 7)
            mine = cell if chance.random() < 0.9 else (cell[0], chance.choice(flavours))
            milli = chance.choice(MILLI[mine[1]])
            stays.append(Stay(attempt, attempt * 10 + place, *mine, begin, end, milli))
    chance.shuffle(stays)
    guarantees = []
    for _ in range(chance.randrange(5)):
        since = chance.choice((0, 0, chance.randrange(END)))
        until = chance.choice((None, since + chance.randrange(1, 40)))
        scope = (chance.choice(("", *POOLS)), chance.choice(("", *flavours)))
        guarantees.append(
            Guarantee(chance.choice(("t", "t", "o")), *scope, chance.randrange(5), since, until)
        )
    return stays, guarantees


def looked_at(stays: list[Stay], guarantees: list[Guarantee], at_s: int) -> set[tuple[int, int]]:
    """Who borrows at a second, by looking at everything."""
    now = [g for g in guarantees if g.gpus and g.holds_at(at_s)]
    room: dict[tuple[str, str], int] = {}
    for g in now:
        if g.team == "t":
            room[g.pool, g.flavour] = room.get((g.pool, g.flavour), 0) + 1000 * g.gpus
    found = set()
    held = [s for s in stays if s.start_s <= at_s < s.end_s]
    for stay in sorted(held, key=lambda s: (s.attempt, s.pool, s.flavour, s.milli, s.device)):
        if not any(g.covers((stay.pool, stay.flavour)) for g in now):
            continue
        scopes = [(stay.pool, stay.flavour), (stay.pool, ""), ("", stay.flavour), ("", "")]
        wanted = stay.milli
        if sum(room.get(scope, 0) for scope in scopes) < wanted:
            found.add((stay.attempt, stay.device))
            continue
        for scope in scopes:
            part = min(wanted, room.get(scope, 0))
            room[scope] = room.get(scope, 0) - part
            wanted -= part
    return found


def check(seed: int) -> int:
    stays, guarantees = world(seed)
    swept = borrowed(stays, "t", guarantees, 0, END)
    count = 0
    for at_s in range(END):
        now = {key for key, found in swept.items() if any(a <= at_s < b for a, b in found)}
        assert now == looked_at(stays, guarantees, at_s), (seed, at_s)
        count += len(now)
    for found in swept.values():
        assert all(a < b for a, b in found)
        assert all(one[1] < other[0] for one, other in pairwise(found))
    return count


def test_the_sweep_is_looking_at_every_second():
    assert sum(check(seed) for seed in range(400)) > 10_000


@pytest.mark.long
def test_the_sweep_is_looking_at_every_second_of_ten_thousand_histories():
    for seed in range(400, 10_400):
        check(seed)


def test_a_window_may_be_cut_anywhere():
    """F4 for tiers."""
    for seed in range(60):
        stays, guarantees = world(seed)
        middle = random.Random(seed).randrange(1, END)
        whole = borrowed(stays, "t", guarantees, 0, END)
        halves = [borrowed(stays, "t", guarantees, *w) for w in ((0, middle), (middle, END))]
        for key in {*whole, *halves[0], *halves[1]}:
            parts = [b - a for half in halves for a, b in half.get(key, ())]
            assert sum(parts) == sum(b - a for a, b in whole.get(key, ()))


def test_the_older_attempt_keeps_the_guarantee_and_leaves_it_to_the_younger():
    stays = [Stay(1, 1, "p", "h", 0, 10), Stay(2, 2, "p", "h", 2, 30)]
    given = [Guarantee("t", "p", "h", 1, 0)]
    assert borrowed(stays, "t", given, 0, 60) == {(2, 2): [(2, 10)]}


def test_who_has_no_guarantee_borrows_what_somebody_else_is_guaranteed():
    stays = [Stay(1, 1, "p", "h", 0, 10), Stay(2, 2, "q", "h", 0, 10)]
    assert borrowed(stays, "t", [Guarantee("o", "p", "", 4, 5)], 0, 60) == {(1, 1): [(5, 10)]}
    assert borrowed(stays, "t", [], 0, 60) == {}


def test_parts_take_of_a_guarantee_what_they_are_of_a_card():
    """Twelve quarters are three cards of four; then a whole one fits beside them, and no second."""
    quarters = [Stay(1, device, "p", "h 1/4", 0, 30, 250) for device in range(12)]
    given = [Guarantee("t", "", "", 4, 0)]
    assert borrowed(quarters, "t", given, 0, 60) == {}
    more = [Stay(2, 20, "p", "h", 5, 30), Stay(3, 30, "p", "h 1/4", 6, 30, 250)]
    assert borrowed([*quarters, *more], "t", given, 0, 60) == {(3, 30): [(6, 30)]}
    seventeen = [Stay(n, n, "p", "h 1/4", 0, 30, 250) for n in range(17)]
    assert borrowed(seventeen, "t", given, 0, 60) == {(16, 16): [(0, 30)]}


def test_who_leaves_may_make_an_older_one_fit_and_a_younger_one_borrow():
    """A card did not fit beside two quarters, so a younger quarter was guaranteed instead."""
    stays = [
        Stay(1, 1, "p", "q", 0, 10, 250),
        Stay(2, 2, "p", "h", 0, 30),
        Stay(3, 3, "p", "q", 0, 30, 250),
    ]
    given = [Guarantee("t", "", "", 1, 0)]
    assert borrowed(stays, "t", given, 0, 60) == {(2, 2): [(0, 10)], (3, 3): [(10, 30)]}


def test_pieces_tile_what_they_cut():
    assert list(pieces(0, 10, [(-5, 2), (4, 6), (9, 20)])) == [
        (0, 2, True),
        (2, 4, False),
        (4, 6, True),
        (6, 9, False),
        (9, 10, True),
    ]
    assert list(pieces(3, 7, [])) == [(3, 7, False)]


def test_guaranteed_seconds_are_quota_times_time():
    given = [
        Guarantee("t", "p", "h", 2, 10),
        Guarantee("t", "", "", 1, 0, 20),
        Guarantee("o", "q", "", 5, 0),
    ]
    assert guaranteed_seconds(given, "p", 0, 30) == {"t": 2 * 20 + 20}
