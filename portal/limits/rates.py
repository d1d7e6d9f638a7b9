"""How fast a bucket fills, what it holds, and when a search is the one before, typed on."""

from __future__ import annotations

import math
from dataclasses import dataclass

# A search that is typed asks several times; each time after the first takes a tenth.
CONTINUED_COST = 0.1
CONTINUED_S = 10.0
MOST_TYPED = 8


@dataclass(frozen=True, slots=True)
class Rate:
    """A bucket of `at_once` calls, filled by `per_minute`."""

    per_minute: float
    at_once: float

    @property
    def per_s(self) -> float:
        return self.per_minute / 60

    def wait_s(self, missing: float) -> int:
        """Whole seconds until so much is there, at least one."""
        return max(1, math.ceil(missing / self.per_s))


def goes_on(before: str, said: str) -> bool:
    """Whether `said` is `before`, some letters more or some fewer; an empty one is no search."""
    is_one = said.startswith(before) or before.startswith(said)
    return bool(before and said) and is_one and abs(len(said) - len(before)) <= MOST_TYPED
