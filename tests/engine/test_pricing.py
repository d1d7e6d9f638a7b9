"""What is kept up to date while jobs are stopped equals working it out anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.board import Board
from scheduler.engine.preempting.floor import Floor, Resident
from scheduler.engine.preempting.lending.borrowing import Borrowed, borrowed_by_level
from scheduler.engine.preempting.pricing.cheapest import Cheapest
from scheduler.engine.preempting.pricing.sums import Prices, Shares
from scheduler.engine.sharing.cohorts import Cohorts
from scheduler.engine.sharing.tree import Tree
from scheduler.engine.snapshot import NONE, Flags, Limits, classes_of, flags, floats, ints
from tests.builders import draw, job

NODES = 4


@dataclass(frozen=True)
class Running:
    """One job: the nodes it is on, what it holds of each, and what stopping it costs."""

    nodes: tuple[int, ...]
    gpus: int
    cpus: int
    price: float


_jobs = st.lists(
    st.builds(
        Running,
        nodes=st.sets(st.integers(0, NODES - 1), min_size=1, max_size=3).map(tuple),
        gpus=st.integers(0, 4),
        cpus=st.integers(0, 9),
        price=st.sampled_from([0.5, 1.0, 60.0, 7200.25]),
    ),
    max_size=12,
)


def shares_of(jobs: list[Running]) -> tuple[Shares, list[float]]:
    rows = sorted((node, number) for number, one in enumerate(jobs) for node in one.nodes)
    node, job = ints([n for n, _ in rows]), ints([j for _, j in rows])
    held = [jobs[number] for _, number in rows]
    shares = Shares(
        job=job,
        node=node,
        span=ints([len(one.nodes) for one in held]),
        freed=(ints([one.gpus for one in held]), ints([one.cpus for one in held])),
        first=ints(np.searchsorted(node, np.arange(NODES + 1))),
    )
    return shares, [one.price for one in held]


def simple_price(
    jobs: list[Running], may_go: Flags, node: int, missing: tuple[int, int], left: int
) -> tuple[float, list[int]]:
    """Stop the cheapest per GPU on the node, one after the other, until the share fits."""
    there = [(number, one) for number, one in enumerate(jobs) if node in one.nodes]
    counted = {n: round(one.price / min(len(one.nodes), left) * 1000) for n, one in there}
    there.sort(key=lambda pair: (counted[pair[0]] / max(pair[1].gpus, 0.5), pair[0]))
    gpus, cpus, cost, victims = 0, 0, 0, list[int]()
    for number, one in [(0, None), *there]:
        if one is not None and may_go[number]:
            gpus, cpus, cost = gpus + one.gpus, cpus + one.cpus, cost + counted[number]
            victims.append(number)
        if gpus >= missing[0] and cpus >= missing[1]:
            return float(cost), victims
    return np.inf, victims


@given(_jobs, st.data())
def test_prices_follow_who_may_go_and_equal_adding_up_node_by_node(jobs, data):
    shares, price = shares_of(jobs)
    left = data.draw(st.integers(1, 3))
    prices = Prices(shares, floats(price), left)
    for _ in range(3):
        may_go = flags([data.draw(st.booleans()) for _ in jobs])
        needs = st.lists(st.integers(-1, 9), min_size=NODES, max_size=NODES)
        missing = (ints(data.draw(needs)), ints(data.draw(needs)))
        prices.update(may_go)
        costs = prices.of_nodes(missing)
        for node in range(NODES):
            wanted = int(missing[0][node]), int(missing[1][node])
            expected, victims = simple_price(jobs, may_go, node, wanted, left)
            assert costs[node] == expected
            if np.isfinite(expected):
                assert prices.victims(missing, node).tolist() == victims


@settings(max_examples=60)
@given(_jobs, st.data())
def test_the_cheapest_node_is_found_without_pricing_all_of_them(jobs, data):
    """As jobs come, and others may go: the same node and victims as pricing every node."""
    with_memory, price = shares_of(jobs)
    shares = replace(with_memory, freed=(*with_memory.freed, ints([0] * len(price))))
    amounts = st.lists(st.integers(0, 3), min_size=NODES, max_size=NODES)
    board = SimpleNamespace(
        free_gpus=[ints(data.draw(amounts))],
        cpus_free=ints(data.draw(amounts)),
        memory_free_mib=ints([0] * NODES),
        changes=ints([0] * NODES),
        in_pool=[flags([True] * NODES)],
        is_closed=flags([False] * NODES),
    )
    cheapest = Cheapest(board, 0, shares, Prices(shares, floats(price), 1))
    request = classes_of(draw("a .", jobs=[job(1)]).waiting).requests[0]
    for _ in range(4):
        may_go = flags([data.draw(st.booleans()) for _ in jobs])
        is_open = flags([data.draw(st.booleans()) for _ in range(NODES)])
        need = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 5))
        cheapest.update(may_go)
        shape = replace(request, gpus=need[0], cpus=need[1], memory_mib=0, model=0)
        found = cheapest.find(shape, is_open)
        free = zip(board.free_gpus[0].tolist(), board.cpus_free.tolist(), strict=True)
        lacking = [(need[0] - gpus, need[1] - cpus) for gpus, cpus in free]
        told = [simple_price(jobs, may_go, n, lacking[n], 1) for n in range(NODES) if is_open[n]]
        at = [n for n in range(NODES) if is_open[n]]
        best = min(zip(told, at, strict=True), key=lambda one: (one[0][0], one[1]), default=None)
        if best is None or not np.isfinite(best[0][0]):
            assert found is None
        else:
            assert (found.node, found.victims) == (best[1], best[0][1])
        charged = data.draw(st.integers(0, NODES - 1))
        board.free_gpus[0][charged] -= 1
        board.changes[charged] += 1


# The organisation, two teams, and two projects of the first.
TREE = Tree(ints([NONE, 0, 0, 1, 1]))
LEVELS = {0: (0,), 1: (0, 1), 2: (0, 2), 3: (0, 1, 3), 4: (0, 1, 4), NONE: ()}


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(NONE, 4), st.integers(0, 4)), min_size=1, max_size=12),
    st.data(),
)
def test_who_runs_on_what_is_borrowed_follows_charges_and_stops(jobs, data):
    account = [owner for owner, _ in jobs]
    milli = ints([1000 * gpus for _, gpus in jobs])
    levels = [
        ints([LEVELS[a][depth] if depth < len(LEVELS[a]) else NONE for a in account])
        for depth in range(3)
    ]
    age = ints(data.draw(st.permutations(range(len(jobs)))))
    limits = Limits.of(account=ints([1, 2, 3]), guaranteed=ints([6, 4, 2]))
    held = ints(np.zeros(5))
    for owner, amount in zip(account, milli.tolist(), strict=True):
        if owner != NONE:
            held[owner] += amount
    cohorts = Cohorts(TREE, limits, held, 16_000)
    borrowed = Borrowed(cohorts, levels, milli, age)
    may_stop = flags([data.draw(st.booleans()) for _ in jobs])
    is_gone = flags(np.zeros(len(jobs)))
    for _ in range(4):
        borrowed.update(flags(may_stop & ~is_gone), is_gone)
        borrows = ints([*(cohorts.borrows(row) for row in range(5)), 0])
        may_go = flags(may_stop & ~is_gone)
        expected = borrowed_by_level(levels, borrows, may_go, is_gone, milli, age)
        for level, found in enumerate(borrowed.by_level):
            assert found == expected[level].tolist()
        if data.draw(st.booleans()):
            cohorts.charge(data.draw(st.integers(0, 4)), 1000 * data.draw(st.integers(1, 4)))
        is_gone = flags(is_gone | (may_stop & flags([data.draw(st.booleans()) for _ in jobs])))


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 3), st.integers(0, 1)),
        max_size=20,
    )
)
def test_whom_to_move_follows_who_comes_and_goes_and_equals_looking_anew(steps):
    """Each step is a node, GPUs, price and tier of who comes, or of who leaves if it is full."""
    snapshot = draw("a ....", "b ....", "c ....", jobs=[job(1, "1x4"), job(2, "2x2")])
    requests = classes_of(snapshot.waiting).requests
    kept, there = Floor(Board(snapshot)), dict[int, Resident]()
    for number, (node, gpus, price, tier) in enumerate(steps):
        newcomer = Resident(((node, gpus),), 0, 0, gpus, float(price), tier)
        if kept.holds(newcomer):
            there[number] = newcomer
            kept.put(number, newcomer)
        else:
            leaving = next(n for n, one in there.items() if one.shares[0][0] == node)
            del there[leaving]
            kept.take_off(leaving)
        anew = Floor(Board(snapshot))
        for other, resident in there.items():
            anew.put(other, resident)
        for request in requests:
            for least, own_tier in ((2, 0), (4, 0), (4, 1)):
                found = kept.cheapest_moves(request, least, own_tier, np.inf)
                assert found == anew.cheapest_moves(request, least, own_tier, np.inf)
                assert all(there[other].tier <= own_tier for other in found or ())
