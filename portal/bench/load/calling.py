"""Connections of simulated nodes: each has its own, as nodes have."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator

import httpx

# An agent keeps its connections while it rests; the portal closes what nobody used for 30 s.
_KEPT_S = 25.0


@contextlib.asynccontextmanager
async def callers(address: str, count: int) -> AsyncIterator[list[httpx.AsyncClient]]:
    """So many clients of the portal's door for nodes at this address.

    One for all looks at every connection on each call: with 400 of them that took seconds, which
    were counted as the portal's.
    """
    # What is made of certificates, which nobody asks for here, takes long: one for all.
    context, limits = ssl.create_default_context(), httpx.Limits(keepalive_expiry=_KEPT_S)
    base = f"{address}/api/agent/v1"
    made = [
        httpx.AsyncClient(base_url=base, timeout=60, verify=context, limits=limits)
        for _ in range(count)
    ]
    async with contextlib.AsyncExitStack() as stack:
        for one in made:
            await stack.enter_async_context(one)
        yield made
