"""Hints that come in: kept subscriptions, what was heard since, and a broker that is away."""

from __future__ import annotations

import asyncio
import time

import pytest
from channels.layers import get_channel_layer

from scheduler import events, hearing
from scheduler.hearing import HintsLost, listening, moment

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def layer(settings):
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}


async def until(what):
    async with asyncio.timeout(20):
        while not what():
            await asyncio.sleep(0.005)


async def tell(topic):
    await get_channel_layer().group_send(hearing.group_name(topic), {"type": "hint"})


def groups():
    return set(get_channel_layer().groups)


def test_a_kept_topic_tells_who_comes_later_what_it_missed():
    async def play():
        before = moment()
        async with listening("node:1", keeps=True) as ear:
            # It did not stand when somebody looked before it.
            assert not ear.is_quiet_since(before)
        looked_at = moment()
        async with listening("node:1", keeps=True) as again:
            assert again is ear and again.is_quiet_since(looked_at)
            await tell("node:1")
            assert await again.wait(looked_at, 20)
            assert not again.is_quiet_since(looked_at)
            assert not await again.wait(moment(), 0.01)
        async with listening("job:1") as other:
            assert other is not ear
        await until(lambda: groups() == {"node.1"})

    asyncio.run(play())


def test_an_old_subscription_is_made_anew_and_left(monkeypatch):
    async def play():
        async with listening("node:1", keeps=True) as ear:
            monkeypatch.setattr(hearing, "OLDEST_S", 0.0)
            async with listening("node:1", keeps=True) as fresh:
                assert fresh is not ear
            # Who waits with the old one hears as before.
            looked_at = moment()
            await tell("node:1")
            assert await ear.wait(looked_at, 20)
        await until(lambda: not groups())

    asyncio.run(play())


def test_who_has_looked_since_asks_only_after_a_hint():
    asked = []

    async def is_due():
        asked.append(moment())
        return True

    async def play():
        async with listening("node:1", keeps=True):
            pass
        waiting = asyncio.create_task(
            events.wait_for_node(1, is_due, 30.0, is_due, looked_at=moment())
        )
        await asyncio.sleep(0.02)
        assert not asked
        await tell("node:1")
        await waiting
        # A hint between the look and the wait is not missed.
        looked_at = moment()
        await tell("node:1")
        await events.wait_for_node(1, is_due, 30.0, is_due, looked_at=looked_at)

    asyncio.run(play())
    assert len(asked) == 2


def test_while_the_broker_refuses_hints_it_is_looked_oftener(monkeypatch):
    monkeypatch.setattr(events, "RECHECK_S", 30.0)
    monkeypatch.setattr(events, "RECHECK_WITHOUT_BROKER_S", 0.01)
    looks = []

    async def is_due():
        looks.append(1)
        return len(looks) > 2

    async def play():
        monkeypatch.setattr(events._publisher, "_quiet_until", time.monotonic())
        # A subscription of before stands: only the looking tells.
        async with asyncio.timeout(20):
            await events.wait_for_topic("node:1", is_due, 60.0, keeps=True)

    asyncio.run(play())
    assert len(looks) == 3


def test_hints_are_acted_upon_also_after_the_broker_was_away(monkeypatch):
    monkeypatch.setattr(hearing, "_TRY_AGAIN_S", 0.01)
    acts = []

    async def play():
        layer = get_channel_layer()
        add, away = layer.group_add, [True, False]

        async def sometimes(group, channel):
            if away and away.pop(0):
                raise ConnectionError("the broker is away")
            await add(group, channel)

        monkeypatch.setattr(layer, "group_add", sometimes)
        with pytest.raises(HintsLost):
            async with listening("node:1"):
                pass
        away[:] = [True]
        task = asyncio.create_task(hearing.call_at_hints("scheduling", lambda: acts.append(1)))
        # What was missed meanwhile counts as one.
        await until(lambda: len(acts) == 1)
        await tell("scheduling")
        await until(lambda: len(acts) == 2)
        task.cancel()

    asyncio.run(play())


def test_hints_that_leave_together_arrive_in_their_order_at_those_who_listen(settings, valkey_url):
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [valkey_url], "prefix": "trainyard"},
        }
    }

    async def play():
        layer = get_channel_layer()
        channel = await layer.new_channel()
        for topic in ("scheduling", "job:2"):
            await layer.group_add(hearing.group_name(topic), channel)
        hints = {("scheduling", "wake"): "", ("job:1", "changed"): "", ("job:2", "changed"): 7}
        await events._send(hints)
        async with asyncio.timeout(20):
            heard = [await layer.receive(channel) for _ in range(2)]
        assert [(one["topic"], one["kind"], one["ref"]) for one in heard] == [
            ("scheduling", "wake", ""), ("job:2", "changed", 7)]  # fmt: skip

    asyncio.run(play())
