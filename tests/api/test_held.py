"""Held calls of nodes look again together, and a hint makes each look for itself."""

from __future__ import annotations

import asyncio

import pytest

from portal import limits
from portal.api import holding
from portal.api.holding import HeldNodes
from scheduler import events
from tests import scenes


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
            assert [await held.standing(node, read) for node in (1, 2, 1)] == [1, 1, 1]
            clock[0] += 1.1
            assert [await held.standing(node, read) for node in (2, 1)] == [2, 2]
        with held.one(3):
            # One that came since the last look is not answered from it.
            assert await held.standing(3, read) == 3

    asyncio.run(play())
    assert looks == [[1, 2], [1, 2], [3]]


def test_whoever_asks_during_a_look_takes_what_it_finds():
    held, looks = HeldNodes(), []

    async def read(ids):
        looks.append(sorted(ids))
        await asyncio.sleep(0.01)
        return dict.fromkeys(ids, 7)

    async def play():
        with held.one(1), held.one(2), held.one(3):
            return await asyncio.gather(*(held.standing(node, read) for node in (1, 2, 3) * 20))

    assert asyncio.run(play()) == [7] * 60
    assert looks == [[1, 2, 3]]


def test_a_look_that_fails_is_told_to_all_and_made_again():
    held, looks = HeldNodes(), []

    async def read(ids):
        looks.append(ids)
        await asyncio.sleep(0.01)
        if len(looks) == 1:
            raise ConnectionError("the database is away")
        return dict.fromkeys(ids, 7)

    async def play():
        with held.one(1):
            asked = (held.standing(1, read) for _ in range(3))
            failed = await asyncio.gather(*asked, return_exceptions=True)
            return failed, await held.standing(1, read)

    failed, found = asyncio.run(play())
    assert [type(one) for one in failed] == [ConnectionError] * 3 and found == 7


def test_a_call_that_is_given_up_takes_no_look_from_others():
    held = HeldNodes()

    async def read(ids):
        await asyncio.sleep(0.01)
        return dict.fromkeys(ids, 7)

    async def play():
        with held.one(1), held.one(2):
            first = asyncio.ensure_future(held.standing(1, read))
            second = asyncio.ensure_future(held.standing(2, read))
            await asyncio.sleep(0)
            first.cancel()
            return await second

    assert asyncio.run(play()) == 7


def test_a_node_that_is_gone_has_no_revision(clock):
    async def read(_ids):
        return {}

    async def play():
        held = HeldNodes()
        with held.one(1):
            return await held.standing(1, read)

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


@pytest.mark.django_db(transaction=True)
def test_a_call_that_is_held_counts_once(root, alice, project, monkeypatch, async_client):
    scenes.build_cluster(root, nodes=1)
    job, counted, looks = scenes.submit(alice, project), [], []

    async def wait_for_topic(topic, is_due, timeout_s):
        looks.extend([await is_due() for _ in range(5)])

    monkeypatch.setattr(holding.events, "wait_for_topic", wait_for_topic)
    monkeypatch.setattr(limits, "wait_s", lambda kind, who, **_: counted.append(kind) or 0)
    async_client.force_login(alice)
    reply = asyncio.run(async_client.get(f"/api/v1/jobs/{job.pk}/?wait=5"))
    assert (reply.status_code, looks) == (200, [False] * 5)
    assert counted == [limits.API]


@pytest.mark.django_db(transaction=True)
def test_one_call_too_many_of_a_person_is_answered_at_once(
    root, alice, bob, project, monkeypatch, async_client
):
    scenes.build_cluster(root, nodes=1)
    job, held, most = scenes.submit(alice, project), [0], []

    async def ask(person, depth):
        """Each call asks the next one while it is held."""

        async def wait_for_topic(topic, is_due, timeout_s):
            held[0] += 1
            await ask(person, depth + 1)

        monkeypatch.setattr(holding.events, "wait_for_topic", wait_for_topic)
        await async_client.aforce_login(person)
        reply = await async_client.get(f"/api/v1/jobs/{job.pk}/?wait=5")
        assert reply.status_code == 200

    monkeypatch.setattr(holding, "MOST_HELD", 3)
    for person in (alice, bob, alice):
        held[0] = 0
        asyncio.run(ask(person, 0))
        most.append(held[0])
    assert most == [3, 3, 3]
