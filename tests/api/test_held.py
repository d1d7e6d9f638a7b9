"""Held calls of nodes look again together, and a hint makes each look for itself."""

from __future__ import annotations

import asyncio

import pytest

from portal.api import holding
from portal.api.holding import HeldNodes
from scheduler import events


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test moves on."""
    now = [100.0]
    monkeypatch.setattr(holding.time, "monotonic", lambda: now[0])
    return now


def test_nodes_share_one_look_a_second(clock):
    held, looks = HeldNodes(), []

    async def read(ids):
        looks.append(sorted(ids))
        return dict.fromkeys(ids, len(looks))

    async def play():
        with held.one(1), held.one(2):
            assert [await held.revision(node, read) for node in (1, 2, 1)] == [1, 1, 1]
            clock[0] += 1.1
            assert [await held.revision(node, read) for node in (2, 1)] == [2, 2]
        with held.one(3):
            # One that came since the last look is not answered from it.
            assert await held.revision(3, read) == 3

    asyncio.run(play())
    assert looks == [[1, 2], [1, 2], [3]]


def test_a_node_that_is_gone_has_no_revision(clock):
    async def read(_ids):
        return {}

    async def play():
        held = HeldNodes()
        with held.one(1):
            return await held.revision(1, read)

    assert asyncio.run(play()) is None


def test_without_a_hint_the_shared_look_ends_the_wait(monkeypatch, settings):
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    monkeypatch.setattr(events, "RECHECK_S", 0.01)
    asked = []

    async def is_due():
        asked.append("own")
        return False

    async def looks_again():
        asked.append("shared")
        return len(asked) > 2

    asyncio.run(events.wait_for_topic("node:1", is_due, 30.0, looks_again))
    assert asked == ["own", "shared", "shared"]
