"""Streams over one tunnel: whole, apart from each other, and within their windows."""

from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.wire.streams import Mux, StreamBroken
from scheduler.wire.tunnel import (
    MAX_DATA,
    MAX_FRAME,
    MAX_STREAMS,
    WINDOW,
    Frame,
    FrameError,
    Kind,
    credit,
    read_frame,
)


def pair(accept):
    """Two ends joined by queues, as a WebSocket would; and the tasks that carry."""
    to_node, to_portal = asyncio.Queue(), asyncio.Queue()
    portal, node = Mux(to_node.put), Mux(to_portal.put, accept)

    async def carry(queue, mux):
        while True:
            frame = await queue.get()
            assert len(frame) <= MAX_FRAME
            mux.feed(frame)

    tasks = [
        asyncio.ensure_future(carry(to_node, node)),
        asyncio.ensure_future(carry(to_portal, portal)),
    ]
    return portal, node, tasks


async def echo(stream, order):
    while piece := await stream.read():
        await stream.write(piece)
    await stream.end()


async def drain(stream):
    whole = b""
    while piece := await stream.read():
        whole += piece
    return whole


async def test_many_streams_at_once_come_back_whole():
    portal, node, tasks = pair(echo)
    sent = [os.urandom(WINDOW * 3 + n) for n in range(8)]

    async def once(data):
        stream = await portal.open(b"{}")
        reader = asyncio.ensure_future(drain(stream))
        await stream.write(data)
        await stream.end()
        return await reader

    assert await asyncio.gather(*map(once, sent)) == sent
    assert (len(portal), len(node)) == (0, 0)
    for task in tasks:
        task.cancel()


async def test_a_reader_that_rests_holds_one_window_and_no_other_stream():
    written = 0

    async def pour(stream, order):
        nonlocal written
        if order == b"echo":
            await echo(stream, order)
            return
        while True:
            await stream.write(bytes(MAX_DATA))
            written += MAX_DATA

    portal, _, tasks = pair(pour)
    slow = await portal.open(b"pour")
    for _ in range(200):
        await asyncio.sleep(0)
    assert written == WINDOW
    other = await portal.open(b"echo")
    await other.write(b"still here")
    await other.end()
    assert await drain(other) == b"still here"
    taken = 0
    while taken < 2 * WINDOW:
        taken += len(await slow.read())
    await slow.reset("enough")
    with pytest.raises(StreamBroken, match="enough"):
        await slow.read()
    for task in tasks:
        task.cancel()


async def test_who_breaks_the_rules_is_told_apart_from_who_was_too_late():
    portal, nobody, tasks = pair(echo)
    stream = await portal.open(b"{}")
    assert len(nobody) == 0
    for broken in (
        Frame(Kind.DATA, 99, b"x"),
        Frame(Kind.OPEN, 1, b"{}"),
        credit(stream.number, 1),
    ):
        with pytest.raises(FrameError):
            portal.feed(broken.packed())
    for _ in range(WINDOW // MAX_DATA):
        portal.feed(Frame(Kind.DATA, stream.number, bytes(MAX_DATA)).packed())
    with pytest.raises(FrameError, match="more data than credit"):
        portal.feed(Frame(Kind.DATA, stream.number, b"x").packed())
    await stream.reset("over")
    portal.feed(Frame(Kind.DATA, stream.number, b"late").packed())
    for task in tasks:
        task.cancel()


async def test_streams_are_counted_and_a_closed_tunnel_breaks_them_all():
    portal, _, tasks = pair(echo)
    few = MAX_STREAMS // 4
    streams = [await portal.open(b"{}") for _ in range(MAX_STREAMS - few)]
    with pytest.raises(StreamBroken, match="too many"):
        await portal.open(b"{}")
    # One session's many keep no other out.
    for _ in range(few):
        await portal.open(b"other")
    for order in (b"other", b"third"):
        with pytest.raises(StreamBroken, match="too many"):
            await portal.open(order)
    await streams.pop().reset("over")
    await portal.open(b"third")
    waits = asyncio.ensure_future(streams[0].read())
    await asyncio.sleep(0)
    portal.close("the node is gone")
    with pytest.raises(StreamBroken, match="the node is gone"):
        await waits
    with pytest.raises(StreamBroken):
        await streams[1].write(b"x")
    assert len(portal) == 0
    for task in tasks:
        task.cancel()


@given(st.binary(max_size=MAX_FRAME + 40))
def test_any_bytes_are_a_frame_or_refused(raw):
    try:
        frame = read_frame(raw)
    except FrameError:
        return
    assert frame.packed() == raw
    assert frame.stream > 0
