"""Sockets while the broker is away, and after it began anew: their pages look for themselves."""

from __future__ import annotations

import asyncio

import pytest
from channels.layers import get_channel_layer

from portal.live import broker, consumer
from scheduler import tallies
from scheduler.tallies import Tally
from tests.live.test_socket import follow, hint, opened
from tests.pages.yard import build_yard
from tests.servers import running_broker, short_folder

pytestmark = [pytest.mark.asyncio, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


async def test_without_a_broker_the_socket_says_try_later(alice, yard, monkeypatch):
    async def fails(*_):
        raise OSError("no broker")

    live = await opened(alice)
    monkeypatch.setattr(get_channel_layer(), "group_add", fails)
    before = tallies._untold[Tally.SOCKET_RESYNC]
    await live.send({"subscribe": ["nodes"]})
    assert await live.close_code() == 1013
    # No store is told of it within these seconds.
    assert tallies._untold[Tally.SOCKET_RESYNC] == before + 1


@pytest.mark.parametrize("later", [None, ("another start",)])
async def test_a_broker_that_went_or_began_anew_closes_sockets(alice, yard, monkeypatch, later):
    runs = ("one start",)

    async def answers():
        return runs

    monkeypatch.setattr(consumer, "RECHECK_S", 0.2)
    monkeypatch.setattr(consumer, "broker_runs", answers)
    live = await opened(alice)
    await follow(live, "nodes")
    await asyncio.sleep(0.5)
    await hint("nodes")
    assert (await live.frame())["topic"] == "nodes"
    runs = later
    assert await live.close_code() == 1013
    again = await opened(alice)
    await again.send({"subscribe": ["nodes"]})
    assert await again.close_code() == 1013 if later is None else await again.any_frame()


async def test_a_topic_that_was_joined_in_part_is_left(alice, yard, monkeypatch):
    layer = get_channel_layer()
    real = layer.group_add

    async def fails(group, channel):
        await real(group, channel)
        raise OSError("no broker")

    live = await opened(alice)
    members = set(layer.groups.get("nodes", ()))
    monkeypatch.setattr(layer, "group_add", fails)
    await live.send({"subscribe": ["nodes"]})
    assert await live.close_code() == 1013
    await live.leave()
    assert set(layer.groups.get("nodes", ())) == members


async def test_a_broker_says_which_start_of_it_answers(settings, monkeypatch):
    monkeypatch.setattr(broker, "FRESH_S", 0.0)
    with short_folder() as folder:
        with running_broker(folder) as url:
            settings.CHANNEL_LAYERS = {
                "default": {
                    "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
                    "CONFIG": {"hosts": [url], "prefix": "trainyard"},
                }
            }
            first = await broker.broker_runs()
            assert first and first[0] and await broker.broker_runs() == first
        assert await broker.broker_runs() is None
        with running_broker(folder):
            assert await broker.broker_runs() not in (None, first)
