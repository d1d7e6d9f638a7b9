"""Sockets whose session runs out, and those that never read (B100)."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from portal.live import consumer
from tests.live.test_socket import follow, hint, opened, socket

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.once,
    pytest.mark.django_db(transaction=True),
]


def expire(client):
    session = client.session
    session.set_expiry(-60)
    session.save()


async def test_a_session_that_has_run_out_opens_nothing_and_ends_what_is_open(alice, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.2)
    client = Client()
    live = await opened(alice, client)
    await follow(live, "nodes")
    await sync_to_async(expire)(client)
    assert await live.close_code() == 4401
    late = await sync_to_async(socket)(alice, client=Expired())
    assert await late.connect()
    assert await late.close_code() == 4401


class Expired(Client):
    """Signs in with a session that is over at once."""

    def force_login(self, user, backend=None):
        super().force_login(user, backend)
        expire(self)


async def test_who_never_reads_is_hung_up_on_and_no_other_waits(alice, bob, monkeypatch):
    monkeypatch.setattr(consumer, "SEND_TIMEOUT_S", 0.3)
    deaf, other = await sync_to_async(socket)(alice), await opened(bob)
    # One message waits to be read; the next has to wait before it can be sent.
    deaf._output_queue = asyncio.Queue(maxsize=1)
    assert await deaf.connect()
    await follow(other, "nodes")
    await deaf.send({"subscribe": ["nodes", f"user:{alice.pk}"]})
    for number in range(3):
        await hint("nodes", ref=number)
        assert (await other.frame())["ref"] == number
    assert await deaf.close_code() == 1013
    await other.leave()
