"""Buckets in this process: for what no other needs to know, and while there is no store."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from portal.limits.rates import CONTINUED_COST, CONTINUED_S, Rate, goes_on

_MOST_KEYS = 20_000


@dataclass(frozen=True, slots=True)
class _Bucket:
    left: float
    at: float
    said: str


class Buckets:
    """A bucket for each caller; the callers seen last are remembered."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, name: str, rate: Rate, said: str = "", *, takes: bool = True) -> int:
        """Take one; whole seconds to wait first when there is none, 0 when it was had.

        `said`: the text that is searched for; what goes on with the last one takes a part only.
        `takes` False only looks.
        """
        with self._lock:
            now = self._clock()
            known = self._left.pop(name, None) or _Bucket(rate.at_once, now, "")
            left = min(rate.at_once, known.left + (now - known.at) * rate.per_s)
            is_same = now - known.at < CONTINUED_S and goes_on(known.said, said)
            cost = CONTINUED_COST if is_same else 1.0
            is_had = left >= cost
            kept = left - cost if is_had and takes else left
            self._left[name] = _Bucket(kept, now, said)
            if len(self._left) > _MOST_KEYS:
                self._left.popitem(last=False)
        return 0 if is_had else rate.wait_s(cost - left)
