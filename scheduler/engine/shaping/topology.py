"""How many nodes of a gang go to each rack or block: the tightest that hold it.

The rules, over the number of nodes with room in each group:

* required: all in one group, the one with the fewest that still holds the gang;
* preferred: the same if one does, else as few groups as possible: the fullest whole, then the
  tightest for what is left;
* balanced: as few groups as hold equal parts of it, which differ by one at most; the tightest.

Kueue's topology-aware scheduling ("Topology Aware Scheduling", design note of Kueue, 2024) has
the same three wishes; there too the fewest domains come first, then the least left over.
"""

from __future__ import annotations

import numpy as np

from scheduler.engine.snapshot import NONE, SPREADS, Ints, ints

REQUIRED, PREFERRED, BALANCED = range(len(SPREADS))


def split_gang(counts: Ints, need: int, spread: int) -> Ints | None:
    """How many of `need` nodes each group gives, None if the rule cannot be kept.

    `counts`: nodes with room by group. Raises nothing; an unknown `spread` is balanced.
    """
    if not len(counts):
        return None
    one = _one_group(counts, need)
    if one is not None or spread == REQUIRED:
        return one
    return _fewest(counts, need) if spread == PREFERRED else _equal_parts(counts, need)


def best_count(counts: Ints, need: int, spread: int) -> int:
    """The largest gang, up to `need` nodes, that could go by the rule now."""
    if spread == REQUIRED:
        return min(need, int(counts.max(initial=0)))
    if spread == PREFERRED:
        return min(need, int(counts.sum()))
    sizes = range(min(need, int(counts.sum())), 0, -1)
    return next((n for n in sizes if split_gang(counts, n, spread) is not None), 0)


def _one_group(counts: Ints, need: int) -> Ints | None:
    holds = counts >= need
    if not holds.any():
        return None
    taken = np.zeros_like(counts)
    taken[np.where(holds, counts, np.iinfo(np.int64).max).argmin()] = need
    return ints(taken)


def _fewest(counts: Ints, need: int) -> Ints | None:
    fullest_first = np.argsort(-counts, kind="stable")
    so_far = counts[fullest_first].cumsum()
    if so_far[-1] < need:
        return None
    # The groups before the last one give all they have.
    whole = int(np.searchsorted(so_far, need))
    taken = np.zeros_like(counts)
    taken[fullest_first[:whole]] = counts[fullest_first[:whole]]
    left = ints(np.where(taken > 0, 0, counts))
    last = _one_group(left, need - int(taken.sum()))
    return None if last is None else ints(taken + last)


def _equal_parts(counts: Ints, need: int) -> Ints | None:
    fullest = np.sort(counts)[::-1]
    groups = np.arange(1, min(len(counts), need) + 1)
    part, larger = need // groups, need % groups
    holds = (fullest[groups - 1] >= part) & (
        (larger == 0) | (fullest[np.maximum(larger, 1) - 1] > part)
    )
    if not holds.any():
        return None
    at = int(holds.argmax())
    size, extra = int(part[at]), int(larger[at])
    tightest_first = np.argsort(counts, kind="stable")
    taken = np.zeros_like(counts)
    wide = tightest_first[counts[tightest_first] > size][:extra]
    taken[wide] = size + 1
    rest = tightest_first[(counts[tightest_first] >= size) & (taken[tightest_first] == 0)]
    taken[rest[: int(groups[at]) - extra]] = size
    return ints(taken)


def count_groups(group: Ints, rows: Ints) -> Ints:
    """How many of the node rows are in each group; nodes in none (-1) are left out."""
    known = group[rows][group[rows] != NONE]
    return ints(np.bincount(known, minlength=int(group.max(initial=NONE)) + 1))
