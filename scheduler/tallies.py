"""How often rare things happened, counted by all processes together beside the broker.

To count is to add to a number of this process; some seconds later a thread tells the store what has
come together, so that nobody waits for it. A process that is killed meanwhile takes those seconds
with it, and a store that begins anew counts from nothing: these are for monitors, not for books.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from enum import StrEnum

import redis
from django.conf import settings

logger = logging.getLogger(__name__)

KEY = "trainyard:tallies"
TIMEOUT_S = 0.5
TOLD_AFTER_S = 5.0


class Tally(StrEnum):
    """What is counted."""

    # A node's call, or what it says, about an attempt that is not its own any more.
    STALE_NODE = "stale_node"
    # A plan of a scheduler whose lease another one holds by now.
    STALE_SCHEDULER = "stale_scheduler"
    # A piece of a log or a file that lacks the bytes before it; the node sends those.
    GAP_REFUSED = "gap_refused"
    # An attempt that ended without the end of its log, which its history says.
    GAP_RECORDED = "gap_recorded"
    # A socket closed, or a log gone on at its end, so that a page fetches anew.
    SOCKET_RESYNC = "socket_resync"


_lock = threading.Lock()
_untold: Counter[Tally] = Counter()
_timer: threading.Timer | None = None


def tally(what: Tally) -> None:
    """One more."""
    global _timer
    with _lock:
        _untold[what] += 1
        if _timer is None:
            _timer = threading.Timer(TOLD_AFTER_S, tell)
            _timer.daemon = True
            _timer.start()


def tell() -> None:
    """Say what has come together; while the store is away it is kept for the next time."""
    global _timer
    with _lock:
        told, _timer = dict(_untold), None
        _untold.clear()
    if not told:
        return
    try:
        with _store() as store, store.pipeline() as line:
            for what, times in told.items():
                line.hincrby(KEY, str(what), times)
            line.execute()
    except (redis.RedisError, OSError, ValueError) as error:
        logger.info("the broker is away; counts are told to it later: %s", error)
        with _lock:
            _untold.update(told)


def tallies() -> dict[Tally, int] | None:
    """Of all processes, this one's until now; None where the store does not answer."""
    tell()
    try:
        with _store() as store:
            found = store.hgetall(KEY)
    except (redis.RedisError, OSError, ValueError):
        return None
    return {what: int(found.get(what.encode(), 0)) for what in Tally}


def _store() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
    )


def _begin_anew() -> None:
    """A child has none of its parent's threads, and its parent tells what it has counted."""
    global _timer, _lock
    _lock, _timer = threading.Lock(), None
    _untold.clear()


os.register_at_fork(after_in_child=_begin_anew)
