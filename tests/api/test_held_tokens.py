"""A call that is held ends soon after its node's right to speak."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from scheduler.models import Node
from scheduler.services.nodes import authenticate_node, retire_node
from scheduler.services.nodes.credentials import renew_token
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import SyncReply
from tests.api.test_agent import REQUEST, enrolled, refusal

__all__ = ["enrolled"]

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.once,
    pytest.mark.django_db(transaction=True),
]


async def _while_held(secret, act):
    """The answer to a call that is held, once somebody has done something, and after how long."""

    async def ask(message):
        """As agents do: who is told that the database is busy asks again."""
        headers = {"Authorization": f"Bearer {secret}"}
        while True:
            answer = await AsyncClient().post(
                "/api/agent/v1/sync", encode(message), "application/json", headers=headers
            )
            if answer.status_code != 503:
                return answer
            await asyncio.sleep(0.1)

    found = decode(SyncReply, (await ask(REQUEST)).content)
    waits = replace(REQUEST, hold_s=20, seen_revision=found.revision, takes_token=True)
    held = asyncio.create_task(ask(waits))
    await asyncio.sleep(1)
    assert not held.done()
    began = time.monotonic()
    await sync_to_async(act)()
    return await held, time.monotonic() - began


async def test_of_a_node_that_is_retired(enrolled, root):
    node, secret = enrolled
    reply, took_s = await _while_held(secret, lambda: retire_node(actor=root, node=node))
    refusal(reply, 401, "node_token_invalid")
    assert took_s < 10


async def test_of_a_token_that_is_no_longer_its(enrolled):
    """Nobody has to tell: it looks for itself."""
    node, secret = enrolled
    others = Node.objects.filter(pk=node.pk)
    reply, took_s = await _while_held(secret, lambda: others.update(token_hash="another"))
    refusal(reply, 401, "node_token_invalid")
    assert took_s < 10


async def test_a_renewal_is_offered_to_it_and_ends_those_of_the_token_before(enrolled, root):
    node, secret = enrolled
    reply, took_s = await _while_held(secret, lambda: renew_token(actor=root, node=node))
    offered = decode(SyncReply, reply.content).next_token
    assert offered and took_s < 10
    # A copy holds a call with the old one while the new one is used.
    reply, took_s = await _while_held(secret, lambda: authenticate_node(offered))
    refusal(reply, 401, "node_token_invalid")
    assert 8 < took_s < 15, "ten seconds for what is under way, and a look"
