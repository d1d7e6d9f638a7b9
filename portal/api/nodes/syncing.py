"""The call a node always makes: what it says is taken in, what it should run is the answer.

Hundreds of nodes call in one moment, and the database does their work one after the other. What
waits meanwhile is taken in together, so that the line grows shorter the longer it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from portal.api.holding import HeldNodes
from portal.api.nodes.calls import answer, body_of, in_lane, refuse, secret_of, welcome
from portal.api.nodes.together import Together
from scheduler import events
from scheduler.hearing import moment
from scheduler.models import Node
from scheduler.services.calling.together import Call, sync_nodes
from scheduler.services.nodes.credentials import authenticate_nodes
from scheduler.services.nodes.orders import (
    Asked,
    Reply,
    Standing,
    current_replies,
    known_to,
    standings,
)
from scheduler.wire.codec import decode
from scheduler.wire.messages import SyncReply, SyncRequest

MAX_HOLD_S = 20.0
# Of calls that are taken in with one transaction. Other writers wait for it, 0.1 to 0.2 s
# where hundreds of nodes report; with a third as many, all of it takes a third longer.
_MOST = 96
_held = HeldNodes[Standing]()
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass(slots=True)
class _Taken:
    """A call that was taken in, and its answer if there is one already."""

    node: Node
    message: SyncRequest
    reply: SyncReply | None = None


@csrf_exempt
async def sync(request: HttpRequest) -> HttpResponse:
    """SyncRequest → SyncReply, held while there is nothing new.

    1. Take in the message: a short transaction in a thread.
    2. Answer at once when there is something that the node has not seen.
    3. Otherwise wait for a hint without a thread or a connection, then read the truth again, and
       in the same breath what follows from it.
    """
    try:
        looked_at = moment()
        taken = await _calls.ask((request, timezone.now()))
        if taken.reply is not None:
            return answer(taken.reply)
        node, known = taken.node, known_to(taken.message)
        seen = taken.message.seen_revision
        news: SyncReply | None = None

        async def is_due() -> bool:
            nonlocal news
            news = await _looks.ask(Asked(node, known=known, seen_revision=seen))
            return news is not None

        async def looks_again() -> bool:
            found = await _held.standing(node.pk, _read_standings)
            return found is None or found.is_due(node, seen)

        with _held.one(node.pk):
            hold_s = min(taken.message.hold_s, MAX_HOLD_S)
            await events.wait_for_node(node.pk, is_due, hold_s, looks_again, looked_at=looked_at)
        return answer(news or await _looks.ask(Asked(node, known=known)))
    except Exception as error:
        return refuse(error)


async def _read_standings(node_ids: list[int]) -> dict[int, Standing]:
    return await in_lane(standings, node_ids)


def _take_in(came: list[tuple[HttpRequest, datetime]]) -> list[_Taken | Exception]:
    """The calls that came, each refused as it would be alone."""
    bodies = [_tried(_said, request) for request, _ in came]
    nodes = iter(authenticate_nodes([said[0] for said in bodies if isinstance(said, tuple)]))
    found: list[_Taken | Exception] = [
        said if isinstance(said, Exception) else _tried(_read, (next(nodes), said[1]))
        for said in bodies
    ]
    calls = [
        (one, Call(one.node, one.message, at))
        for one, (_, at) in zip(found, came, strict=True)
        if isinstance(one, _Taken)
    ]
    answers = sync_nodes([call for _, call in calls])
    replies = {id(one): reply for (one, _), reply in zip(calls, answers, strict=True)}
    return [_answered(one, replies.get(id(one))) for one in found]


def _answered(one: _Taken | Exception, reply: SyncReply | Exception | None) -> _Taken | Exception:
    if isinstance(one, Exception):
        return one
    if isinstance(reply, Exception):
        return reply
    one.reply = reply
    return one


def _said(request: HttpRequest) -> tuple[str, bytes]:
    """The token that is shown, and the message; raises Refused, TokenDead."""
    body = body_of(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    return secret_of(request), body


def _read(shown: tuple[Node | None, bytes]) -> _Taken:
    node, body = shown
    return _Taken(welcome(node), decode(SyncRequest, body))


def _tried(work: Callable[[_Item], _Found], item: _Item) -> _Found | Exception:
    try:
        return work(item)
    except Exception as error:
        return error


async def _take_in_lane(came: list[tuple[HttpRequest, datetime]]) -> list[_Taken | Exception]:
    return await in_lane(_take_in, came)


async def _look_in_lane(asked: list[Asked]) -> list[Reply]:
    return await in_lane(current_replies, asked)


# Who writes to SQLite waits for who does; on PostgreSQL some wait for it while others compute.
_turns = 1 if connection.vendor == "sqlite" else 2
_calls = Together(_take_in_lane, turns=_turns, most=_MOST)
_looks = Together(_look_in_lane, turns=_turns, most=_MOST)
