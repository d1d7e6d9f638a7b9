"""What is kept is found by columns, and is what a look at one after the other would find."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.board.kept import Keeping, Kept, Seeker
from scheduler.engine.plan import SlotKind
from scheduler.engine.snapshot import NONE, Request, ints

NODES, POOL = 6, 0
SHARE = Request(
    pool=POOL, queue=0, nodes=1, gpus=1, cpus=2, memory_mib=3, model=NONE, avoid_node=NONE
)


@st.composite
def things(drawing: st.DrawFn) -> Kept:
    """Whole nodes or parts of some, for a while; now and then for ever."""
    nodes = ints(sorted(drawing(st.sets(st.integers(0, NODES - 1), max_size=4))))
    from_s = float(drawing(st.integers(-2, 6)))
    lasts = drawing(st.sampled_from([1.0, 2.0, 5.0, np.inf]))
    is_whole = drawing(st.booleans())
    each = drawing(st.integers(0, 3))
    need = np.zeros((4, len(nodes)), dtype=np.int64)
    if not is_whole:
        need += each
    return Kept(
        kind=drawing(st.sampled_from([SlotKind.BOOKING, SlotKind.HEAD, SlotKind.MAINTENANCE])),
        owner=drawing(st.integers(0, 3)),
        pool=POOL,
        nodes=nodes,
        need=need,
        from_s=from_s,
        until_s=from_s + lasts,
        free_then=np.full((4, len(nodes)), 8, dtype=np.int64),
        is_whole=is_whole,
        used=drawing(st.sampled_from([None, np.zeros_like(need)])),
    )


def overlaps_of(one: Kept, kept: list[Kept]) -> list[tuple[int, list[list[int]]]]:
    """Of each other that holds when `one` begins: its place, and what it takes of the same nodes.

    Who came first is noted first; who came later, when it came.
    """
    found = []
    for place, other in enumerate(kept):
        taken = other.taken_from(one.nodes)
        holds = other.from_s <= one.from_s < other.until_s
        if other is not one and holds and taken.any():
            found.append((place, taken.tolist()))
    return found


def entered(kept: list[Kept], withdrawn: list[int]) -> tuple[Keeping, list[Kept]]:
    """All of it entered and some of it withdrawn again, by its place; and what is left."""
    keeping = Keeping(NODES)
    for one in kept:
        keeping.enter(one)
    gone = {place % len(kept) for place in withdrawn} if kept else set()
    for place in sorted(gone):
        keeping.withdraw(kept[place])
    return keeping, [one for place, one in enumerate(kept) if place not in gone]


LISTS = st.lists(things(), max_size=12)
SOME = st.lists(st.integers(0, 20), max_size=3)


@given(LISTS, SOME, things())
def test_who_meets_whom_is_what_every_pair_says(kept, withdrawn, last):
    keeping, left = entered(kept, withdrawn)
    keeping.enter(last)
    left.append(last)
    assert list(keeping.of_pool(POOL)) == left
    for one in left:
        noted = [(left.index(other), taken.tolist()) for other, taken in one.overlaps]
        # What leaves nothing to others is never asked what it has to spare.
        assert noted == ([] if one.is_whole else overlaps_of(one, left))


@given(LISTS, SOME, st.integers(-3, 8), st.integers(1, 9))
def test_what_is_taken_meanwhile_is_what_each_takes(kept, withdrawn, from_s, lasts):
    keeping, left = entered(kept, withdrawn)
    until_s = from_s + lasts
    taken, is_shut, is_kept = np.zeros(NODES), np.zeros(NODES, bool), np.zeros(NODES, bool)
    for one in left:
        if one.from_s < until_s and one.until_s > from_s:
            is_kept[one.nodes] = True
            is_shut[one.nodes] |= one.is_whole
            taken[one.nodes] += 0 if one.is_whole else one.need[0]
    found = keeping.taken(POOL, from_s, until_s)
    assert (found[0].tolist(), found[1].tolist()) == (
        taken.tolist(),
        [is_shut.tolist(), is_kept.tolist()],
    )


@given(LISTS, SOME, st.integers(0, NODES - 1), st.integers(-3, 8))
def test_a_start_is_charged_to_what_begins_before_it_is_gone(kept, withdrawn, node, until_s):
    keeping, left = entered(kept, withdrawn)
    who = Seeker(NONE, SHARE)
    binding = [one for one in left if one.from_s < until_s and one.binds(who)]
    assert keeping.binding(who, until_s) == binding
    wanted = []
    for one in left:
        free = np.full((4, len(one.nodes)), 8)
        if one.from_s < until_s and not one.is_whole:
            free[:, one.nodes == node] -= np.array([[1], [2], [3], [0]])
        wanted.append(free.tolist())
    keeping.charge(POOL, [(node, SHARE)], until_s)
    assert [one.free_then.tolist() for one in left] == wanted


def test_hundreds_are_kept_and_given_back_one_by_one():
    keeping = Keeping(NODES)
    need = np.full((4, 1), 1, dtype=np.int64)
    kept = [
        Kept(SlotKind.BOOKING, row, POOL, ints([row % NODES]), need, row, row + 9.0, need.copy())
        for row in range(300)
    ]
    for one in kept:
        keeping.enter(one)
    assert keeping.taken(POOL, 0, 1000)[0].sum() == 300
    for one in kept[::2]:
        keeping.withdraw(one)
    assert keeping.taken(POOL, 0, 1000)[0].sum() == 150
    assert keeping.taken(POOL, 0, 3)[0].tolist() == [0, 1, 0, 0, 0, 0]
