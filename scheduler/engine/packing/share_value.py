"""What the free part of one device is worth to those who share devices."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from scheduler.engine.snapshot import WHOLE_MILLI, Floats, Ints, floats, ints

# How much of the value is what an exact cut would make of the rest; the remainder is what random
# arrivals would fill. The second breaks ties of the first towards closing an open device.
EXACT_PART = 0.85
_EPSILON = 1e-9
_MOST_PATTERNS = 500


def share_values(sizes: Ints, counts: Ints) -> Floats:
    """The worth of 0, 1, ... 1000 free milli of a device, in milli, for shares of these sizes.

    Of every size (1 to 999 milli, distinct) `counts` are asked for. A whole free device is worth
    1000; without any sizes every rest is worth itself.
    """
    return _share_values(tuple(sizes.tolist()), tuple(counts.tolist()))


@lru_cache(maxsize=32)
def _share_values(sizes: tuple[int, ...], counts: tuple[int, ...]) -> Floats:
    if not sizes:
        return floats(np.arange(WHOLE_MILLI + 1))
    size, demand = ints(sizes), floats(floats(counts) / sum(counts))
    exact = knapsack(size, cutting_prices(size, demand))
    values = EXACT_PART * WHOLE_MILLI * exact + (1 - EXACT_PART) * expected_fill(size, demand)
    values[WHOLE_MILLI] = WHOLE_MILLI
    values.setflags(write=False)
    return floats(values)


def cutting_prices(sizes: Ints, demand: Floats) -> Floats:
    """The price of each size in devices: the duals of the cutting-stock problem on one device.

    Column generation (Gilmore and Gomory, "A Linear Programming Approach to the Cutting-Stock
    Problem", Operations Research 9, 1961): start with one pattern per size; while some pattern is
    worth more than the one device it costs, let it enter the basis.
    """
    basis = np.diag((WHOLE_MILLI // sizes).astype(np.float64))
    used = np.linalg.solve(basis, demand)
    for _ in range(_MOST_PATTERNS):
        prices = floats(np.linalg.solve(basis.T, np.ones(len(sizes))))
        best = knapsack(sizes, prices)
        if best[WHOLE_MILLI] <= 1 + _EPSILON:
            break
        pattern = _pattern(sizes, prices, best)
        change = np.linalg.solve(basis, pattern)
        limit = np.full(len(sizes), np.inf)
        np.divide(used, change, out=limit, where=change > _EPSILON)
        leaves = int(np.argmin(limit))
        used = used - limit[leaves] * change
        used[leaves] = limit[leaves]
        basis[:, leaves] = pattern
    return floats(prices)


def knapsack(sizes: Ints, prices: Floats) -> Floats:
    """The highest total price of shares, each as often as wanted, that fit 0, 1, ... 1000 milli."""
    best = np.zeros(WHOLE_MILLI + 1)
    for size, price in zip(sizes.tolist(), prices.tolist(), strict=True):
        # One more copy, then two more, then four: every number of copies is some sum of these.
        copies = 1
        while copies * size <= WHOLE_MILLI:
            room = copies * size
            best[room:] = np.maximum(best[room:], best[:-room] + copies * price)
            copies *= 2
    return floats(best)


def _pattern(sizes: Ints, prices: Floats, best: Floats) -> Floats:
    """How often each size is cut from one device to earn `best[1000]`."""
    pattern, room = np.zeros(len(sizes)), WHOLE_MILLI
    while best[room] > _EPSILON:
        # The least room that earns as much ends with a share, without waste.
        room = int(np.searchsorted(best, best[room] - _EPSILON))
        fits = np.flatnonzero(sizes <= room)
        row = int(fits[np.argmax(best[room - sizes[fits]] + prices[fits])])
        pattern[row] += 1
        room -= int(sizes[row])
    return floats(pattern)


def expected_fill(sizes: Ints, demand: Floats) -> Floats:
    """How much of 0, 1, ... 1000 milli is filled if shares arrive by popularity until none fits."""
    fill = np.zeros(WHOLE_MILLI + 1)
    step = int(np.gcd.reduce(np.append(sizes, WHOLE_MILLI)))
    for room in range(step, WHOLE_MILLI + 1, step):
        fits = sizes <= room
        if fits.any():
            filled = sizes[fits] + fill[room - sizes[fits]]
            fill[room : room + step] = float(demand[fits] @ filled / demand[fits].sum())
    return floats(fill)
