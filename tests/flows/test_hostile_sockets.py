"""Sockets against a real server: floods that no application of ours ever sees (B100)."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import closing

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(240)]

PINGS = 20_000


def door(stack, person):
    """Opens the page's socket as this person's browser does."""
    cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    return connect(
        stack.address.replace("http", "ws", 1) + "/ws/",
        origin=stack.address,
        additional_headers={"Cookie": cookies},
        max_size=None,
    )


async def is_served(stack, person):
    """Another socket is opened and greeted; how long that took."""
    began = time.monotonic()
    async with door(stack, person) as live:
        await live.send(json.dumps({"subscribe": ["nodes"]}))
        assert json.loads(await live.recv())["kind"] == "watching"
    return time.monotonic() - began


def test_floods_of_pings_and_huge_frames_disturb_nobody_else(stack):
    async def play(alice, bob):
        async with door(stack, alice) as flooding, door(stack, alice) as huge:

            async def flood():
                for number in range(PINGS):
                    await flooding.ping(str(number))

            pings = asyncio.create_task(flood())
            took_s = [await is_served(stack, bob) for _ in range(3)]
            await pings
            with pytest.raises(ConnectionClosed) as closed:
                await huge.send("x" * 20_000_000)
                await huge.recv()
            assert closed.value.rcvd is None or closed.value.rcvd.code in (1009, 4400)
            return [*took_s, await is_served(stack, bob)]

    with closing(stack.browser("alice")) as alice, closing(stack.browser("bob")) as bob:
        took_s = asyncio.run(play(alice, bob))
    assert max(took_s) < 10
