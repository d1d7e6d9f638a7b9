"""Whether hints can come and none went amiss, asked once for all sockets of the process."""

from __future__ import annotations

import asyncio
import logging
import time
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer
from channels_redis.pubsub import RedisPubSubChannelLayer
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

logger = logging.getLogger(__name__)

FRESH_S = 5.0
WITHIN_S = 2.0

_looks: WeakKeyDictionary[
    asyncio.AbstractEventLoop, tuple[float, asyncio.Task[tuple[str, ...] | None]]
] = WeakKeyDictionary()


async def broker_runs() -> tuple[str, ...] | None:
    """Which start of each broker answers, as of five seconds ago at most; None: one does not.

    Others than before mean that hints of between were told to nobody.
    """
    loop = asyncio.get_running_loop()
    begun, look = _looks.get(loop, (0.0, None))
    if look is None or (look.done() and time.monotonic() - begun > FRESH_S):
        look = loop.create_task(_ask())
        _looks[loop] = time.monotonic(), look
    # One socket that goes takes no answer from the others.
    return await asyncio.shield(look)


async def _ask() -> tuple[str, ...] | None:
    layer = get_channel_layer()
    if not isinstance(layer, RedisPubSubChannelLayer):
        return ()
    runs = []
    try:
        async with asyncio.timeout(WITHIN_S):
            for shard in layer._shards:
                shard._ensure_redis()
                runs.append(await _run_of(shard._redis))
    except Exception as error:
        logger.warning("no hints for sockets, pages poll instead: %s", error)
        return None
    return tuple(runs)


async def _run_of(broker: Redis) -> str:
    """Another one at each start; empty where the broker answers, but may not say."""
    try:
        info = await broker.info("server")
    except NoPermissionError:
        return ""
    return str(info.get("run_id", ""))
