"""How often somebody may call: token buckets, counted in this process.

A bucket holds a minute's worth and fills evenly: a burst of that size is fine, and the rate in the
long run is the limit. Each web process counts for itself: with N of them the limit is N-fold at
most, which is enough against programs that run wild, and costs no round trip. Signing in has
limits of its own, counted in the database (decision 15).
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from django.conf import settings

API, SUBMIT, NODE, REFUSED = "api", "submit", "node", "refused"
SEARCH, EXPORT, SOCKET = "search", "export", "socket"
_MOST_KEYS = 20_000


class TooFast(Exception):
    """One call too many; `wait_s` whole seconds and the next may be made."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"Too many calls in too short a time. Try again in {wait_s} s.")
        self.wait_s = wait_s


class Buckets:
    """One kind of call: a bucket for each caller; the callers seen last are remembered."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, key: object, *, takes: bool = True) -> int:
        """Take one; whole seconds to wait first when there is none, 0 when it was had.

        `takes` False only looks. A limit of 0 never refuses.
        """
        if not self._most:
            return 0
        name = str(key)
        with self._lock:
            now = self._clock()
            left, at = self._left.pop(name, (self._most, now))
            left = min(self._most, left + (now - at) * self._most / 60)
            is_had = left >= 1
            self._left[name] = (left - 1 if is_had and takes else left, now)
            if len(self._left) > _MOST_KEYS:
                self._left.popitem(last=False)
        return 0 if is_had else max(1, math.ceil((1 - left) * 60 / self._most))


_kinds: dict[str, Buckets] = {}


def buckets(kind: str) -> Buckets:
    """The buckets of a kind of call, with its limit from the settings."""
    if kind not in _kinds:
        _kinds[kind] = Buckets(settings.CALLS_PER_MINUTE[kind])
    return _kinds[kind]


def count(kind: str, key: object) -> None:
    """Take one call of this kind; raises TooFast where there is none."""
    if wait_s := buckets(kind).wait_s(key):
        raise TooFast(wait_s)


def forget() -> None:
    """Begin anew, with the settings of now; for tests."""
    _kinds.clear()
