"""Whose turn it is, kept up as turns are taken: a tournament along the tree of accounts.

A key is the scores from an account downwards and then a place. Each account knows the least key
below it, so a start that changes the scores of an account and those above it is entered along that
one way: other accounts of the tree compare as before. Equals looking at all who wait for the one
with the least scores from the top, then the least place.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TypeAlias

from scheduler.engine.sharing.fairshare import Shares
from scheduler.engine.snapshot import NONE

Key: TypeAlias = tuple[tuple[float, ...], int]


class Turns:
    """Items of accounts (rows, -1 for nobody's, who come first), each with its place.

    Scores may only grow, and only those of an item that is moved next. Without `shares` places
    alone decide; all items are nobody's then.
    """

    def __init__(self, shares: Shares | None) -> None:
        self._shares = shares
        self._own: dict[int, list[tuple[int, int]]] = {}
        self._below: dict[int, list[tuple[Key, int]]] = {}
        self._best: dict[int, Key] = {}

    def add(self, sharer: int, place: int, item: int) -> None:
        """Enter an item; `open` comes after the last one."""
        heappush(self._own.setdefault(sharer, []), (place, item))

    def open(self) -> None:
        """Work out the keys of all accounts with items and those above them, each once."""
        if self._shares is None:
            return
        tree = self._shares.tree
        concerned = {row for sharer in self._own for row in tree.way_up(sharer)}
        # Parents come before their children in the tree, so the deepest first.
        for row in sorted(concerned, reverse=True):
            self._enter(row)

    def first(self) -> int | None:
        """The item whose turn it is, None if nobody is left."""
        row = NONE
        while not (own := self._own.get(row)):
            child = self._least_below(row)
            if child is None:
                return None
            row = child[1]
        return own[0][1]

    def move(self, sharer: int, place: int | None) -> None:
        """The account's first item goes on to a later place, or out; call it after its start."""
        own = self._own[sharer]
        if place is None:
            heappop(own)
        else:
            heapreplace(own, (place, own[0][1]))
        self._settle(sharer)

    def _settle(self, sharer: int) -> None:
        """Work out the keys of an account and those above it anew."""
        if self._shares is None or sharer == NONE:
            return
        for row in self._shares.tree.way_up(sharer):
            self._enter(row)

    def _enter(self, row: int) -> None:
        """Tell the account above this one what comes first below it."""
        assert self._shares is not None
        below = ((), own[0][0]) if (own := self._own.get(row)) else self._key_below(row)
        if below is None:
            self._best.pop(row, None)
            return
        scores, place = below
        key = ((self._shares.score(row), *scores), place)
        if self._best.get(row) != key:
            self._best[row] = key
            heappush(self._below.setdefault(self._shares.tree.parent[row], []), (key, row))

    def _key_below(self, row: int) -> Key | None:
        least = self._least_below(row)
        return None if least is None else least[0]

    def _least_below(self, row: int) -> tuple[Key, int] | None:
        """The least key of an account right below, which entries of the past are taken off."""
        heap = self._below.get(row, [])
        while heap and self._best.get(heap[0][1]) is not heap[0][0]:
            heappop(heap)
        return heap[0] if heap else None
