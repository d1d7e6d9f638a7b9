"""Buckets that all web processes share, kept beside the broker: a round trip for each call.

While the store is away each process counts for itself: nobody is refused for that, and no limit is
gone. Some seconds later it is asked again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from portal.limits.memory import Buckets
from portal.limits.rates import CONTINUED_COST, CONTINUED_S, MOST_TYPED, Rate

logger = logging.getLogger(__name__)

PREFIX = "trainyard:calls:"
TIMEOUT_S = 0.25
AGAIN_S = 5.0
# As `Buckets.wait_s` reckons; the time is the store's, so that clocks of web servers may differ.
_TAKE = f"""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local fills, most, said = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local found = redis.call('HMGET', KEYS[1], 'left', 'at', 'said')
local at, before = tonumber(found[2] or '') or now, found[3] or ''
local left = math.min(most, (tonumber(found[1] or '') or most) + math.max(0, now - at) * fills)
local cost = 1
if said ~= '' and before ~= '' and now - at < {CONTINUED_S} then
  local least = math.min(#said, #before)
  local is_one = string.sub(said, 1, least) == string.sub(before, 1, least)
  if is_one and math.max(#said, #before) - least <= {MOST_TYPED} then cost = {CONTINUED_COST} end
end
local wait = 0
if left >= cost then
  left = left - cost
else
  wait = math.max(1, math.ceil((cost - left) / fills))
end
redis.call('HSET', KEYS[1], 'left', string.format('%.9f', left), 'at', string.format('%.6f', now),
           'said', said)
redis.call('EXPIRE', KEYS[1], math.ceil(most / fills) + 60)
return wait
"""


class SharedBuckets:
    """The buckets of every process that has this store; `clock` says when it is asked again."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        # A connection that the store's restart has broken is replaced once, at once.
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 1),
        )
        self._take: Any = self._client.register_script(_TAKE)
        self._own = Buckets()
        self._clock = clock
        self._ask_at: float | None = None

    def wait_s(self, name: str, rate: Rate, said: str = "") -> int:
        """Take one; whole seconds to wait first when there is none, 0 when it was had."""
        if self._ask_at is not None and self._clock() < self._ask_at:
            return self._own.wait_s(name, rate, said)
        try:
            words = [rate.per_s, rate.at_once, said.encode("utf-8", "replace")]
            wait_s = int(self._take(keys=[f"{PREFIX}{name}"], args=words))
        except (redis.RedisError, OSError, ValueError) as error:
            if self._ask_at is None:
                logger.warning("calls are counted in each process: the store is away: %s", error)
            self._ask_at = self._clock() + AGAIN_S
            return self._own.wait_s(name, rate, said)
        if self._ask_at is not None:
            self._ask_at = None
            logger.warning("calls are counted in the store again")
        return wait_s

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()
