"""In which pools jobs are meant to run: each is sent to one, or may choose from several."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from portal.torture.history import Diary
from portal.torture.program import OTHER_PROJECT
from portal.torture.yard.pools import closed_pool

# So many may choose, and so many of others are of the project that one pool is closed to.
_CHOOSE, _OTHERS = 0.45, 0.2
# What belongs to others stays in their project.
_BOUND = frozenset({"group", "depends_on", "array", "session"})


class Spread:
    """Draws pools by a job's key, whoever sends it, and notes what was drawn before that.

    `sizes`: by pool how many nodes it has, the largest first. With one pool jobs stay as they are.
    `closed`: the pool of which the other project may use nothing.
    """

    def __init__(self, sizes: Mapping[str, int], diary: Diary) -> None:
        self.sizes, self.diary = sizes, diary
        self.closed = closed_pool(sizes)

    @property
    def first(self) -> str:
        """The largest pool."""
        return next(iter(self.sizes))

    def bookable(self, name: str) -> str:
        """A pool in which somebody of this name books a node: one that has another beside it."""
        several = [pool for pool, size in self.sizes.items() if size > 1]
        return random.Random(f"{name}-pools").choice(several or [self.first])

    def lent(self, key: str, sent: dict[str, Any]) -> dict[str, Any]:
        """The document as it is, or as one of the other project, where there are several pools."""
        is_bound = not self.closed or _BOUND & sent.keys()
        theirs = not is_bound and random.Random(f"{key}-project").random() < _OTHERS
        return {**sent, "project": OTHER_PROJECT} if theirs else sent

    def placed(self, key: str, sent: Mapping[str, Any]) -> dict[str, Any]:
        """The document with its pools, the same each time; one of a booking stays in its pool."""
        dice, document = random.Random(f"{key}-pools"), dict(sent)
        if "booking" in document:
            self._note(key, document, [document["pool"]])
            return document
        if len(self.sizes) > 1:
            document |= self._shape(document)
            names = self.drawn(dice, document.get("nodes", 1), document["project"])
            document |= _named(dice, names)
        else:
            names = [document["pool"]]
        self._note(key, document, names)
        return document

    def _shape(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """No more nodes than the largest pool has."""
        nodes, largest = document.get("nodes", 1), max(self.sizes.values())
        return {"nodes": largest} if nodes > largest else {}

    def drawn(self, dice: random.Random, nodes: int, project: str) -> list[str]:
        """Pools that have so many nodes, the most wanted first: one, or some to choose from; never
        the closed one alone for whom it is closed to."""
        fits = [name for name, size in self.sizes.items() if size >= nodes]
        first = dice.choices(fits, [self.sizes[name] for name in fits])[0]
        others = [name for name in fits if name != first]
        chosen: list[str] = []
        if others and dice.random() < _CHOOSE:
            chosen = dice.sample(others, dice.randint(1, len(others)))
        if project == OTHER_PROJECT and [first, *chosen] == [self.closed]:
            chosen = [self.first]
        return [first, *chosen]

    def _note(self, key: str, document: Mapping[str, Any], names: Sequence[str]) -> None:
        self.diary.note("placed", key=key, pools=list(names), project=document["project"])


def _named(dice: random.Random, names: Sequence[str]) -> dict[str, Any]:
    """Both ways in which people write it."""
    first, *others = names
    if others and dice.random() < 0.5:
        return {"pool": ", ".join(names)}
    return {"pool": first, "other_pools": others} if others else {"pool": first}
