"""The calls a node makes: enrol, sync, log, secrets, outputs; all `scheduler/wire` messages.

A node token opens these and nothing else; no cookie is read, so nothing here needs CSRF.
Every refusal is a `Refusal` with a stable code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from accounts.errors import DomainError
from portal import limits
from portal.api.holding import HeldNodes, give_back_connections
from portal.doors import lanes, node_turns
from portal.outages import BEHIND, is_database_away, is_database_behind, is_disk_full
from scheduler import events
from scheduler.hearing import moment
from scheduler.models import Node
from scheduler.services.kept.outputs import append_output, take_output_list
from scheduler.services.logs import append_log
from scheduler.services.nodes import authenticate_node, enrol_node
from scheduler.services.nodes.credentials import TokenDead
from scheduler.services.nodes.orders import (
    Standing,
    current_reply,
    known_to,
    reply_if_newer,
    standings,
)
from scheduler.services.secrets import hand_secrets
from scheduler.services.sync import sync_node
from scheduler.wire.codec import WireError, decode, encode
from scheduler.wire.messages import (
    MAX_LOG_CHUNK,
    EnrolRequest,
    Refusal,
    SyncReply,
    SyncRequest,
)
from scheduler.wire.outputs import OUTPUT_PART, OutputList

logger = logging.getLogger(__name__)

MAX_HOLD_S = 20.0
MAX_ENROL_BYTES = 256 * 1024
MAX_PK = 2**63 - 1
_held = HeldNodes[Standing]()
_STATUS_OF_CODE = {"protocol_unsupported": 426}

Result = TypeVar("Result")


class _Refused(Exception):
    def __init__(self, status: int, code: str, detail: str, wait_s: int = 0) -> None:
        super().__init__(detail)
        self.wait_s = wait_s
        self.status, self.refusal = status, Refusal(code, detail)


def _answer(message: object, status: int = 200) -> HttpResponse:
    answer = HttpResponse(encode(message), status=status, content_type="application/json")
    # There may be a token in it.
    answer["Cache-Control"] = "no-store"
    return answer


def _refuse(error: Exception) -> HttpResponse:
    """Any exception as a Refusal; a busy database is 503, which agents try again."""
    if isinstance(error, _Refused):
        answer = _answer(error.refusal, error.status)
        if error.wait_s:
            answer["Retry-After"] = str(error.wait_s)
        return answer
    if isinstance(error, WireError):
        return _answer(Refusal("malformed", str(error), {"field": error.path}), 400)
    if isinstance(error, DomainError):
        facts = {key: str(value) for key, value in error.facts.items()}
        if error.field:
            facts["field"] = error.field
        refusal = Refusal(error.code, error.detail, facts)
        return _answer(refusal, _STATUS_OF_CODE.get(error.code, error.status))
    if isinstance(error, RequestDataTooBig):
        return _answer(Refusal("too_large", "The message is larger than allowed."), 413)
    if is_database_behind(error):
        logger.error("a node is told to try again: %s", BEHIND)
        return _answer(Refusal("unavailable", BEHIND), 503)
    if is_database_away(error):
        logger.warning("a node is told to try again: %s", error)
        return _answer(Refusal("unavailable", "The database is busy. Try again."), 503)
    if is_disk_full(error):
        logger.error("the disk below the stored files is full: %s", error)
        return _answer(Refusal("unavailable", "The server's disk is full. Try again."), 503)
    logger.error("a node's call failed", exc_info=error)
    return _answer(Refusal("server_error", "Something broke on the server."), 500)


def _answering(
    work: Callable[..., HttpResponse],
) -> Callable[..., Coroutine[None, None, HttpResponse]]:
    """A view that answers every exception with a Refusal."""

    @wraps(work)
    async def answered(request: HttpRequest, **kwargs: object) -> HttpResponse:
        try:
            return await _in_lane(work, request, **kwargs)
        except Exception as error:
            return _refuse(error)

    return answered


def _body(request: HttpRequest, limit: int) -> bytes:
    if request.method != "POST":
        raise _Refused(405, "method_not_allowed", "Use POST.")
    if request.headers.get("Transfer-Encoding"):
        raise _Refused(411, "length_required", "Send the body with a Content-Length.")
    declared = request.headers.get("Content-Length") or "0"
    if not declared.isdigit() or int(declared) > limit:
        raise _Refused(413, "too_large", f"Send at most {limit} bytes.")
    return request.body


def _node_of(request: HttpRequest) -> Node:
    if settings.SECURE_SSL_REDIRECT and not request.is_secure():
        # Not sent elsewhere, as a page would be: the token has been on the wire already.
        raise _Refused(403, "https_required", "Use HTTPS, and a new token: this one was readable.")
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    is_plain = scheme.lower() == "bearer" and len(secret) <= 256 and secret.isascii()
    node = authenticate_node(secret) if is_plain and secret else None
    if node is None:
        raise TokenDead
    if wait_s := limits.own_wait_s(limits.NODE, node.pk):
        raise _Refused(
            429, "too_many_calls", f"Too many calls of this node; wait {wait_s} s.", wait_s
        )
    return node


def _number(request: HttpRequest, name: str) -> int:
    values = request.GET.getlist(name)
    text = values[0] if len(values) == 1 else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise _Refused(400, "malformed", f"{name} must be given once, as a whole number from 0.")
    return int(text)


@csrf_exempt
@_answering
def enrol(request: HttpRequest) -> HttpResponse:
    """EnrolRequest → 201 EnrolReply."""
    message = decode(EnrolRequest, _body(request, MAX_ENROL_BYTES))
    return _answer(enrol_node(request=message), 201)


@csrf_exempt
@_answering
def log(request: HttpRequest, fence: int) -> HttpResponse:
    """Raw bytes at `?rank=&offset=` → LogAck; 409 `log_gap` names the offset to go on from."""
    body = _body(request, MAX_LOG_CHUNK)
    node = _node_of(request)
    rank, offset = _number(request, "rank"), _number(request, "offset")
    ack = append_log(
        node=node, fence=min(fence, MAX_PK), rank=min(rank, 2**31 - 1), offset=offset, body=body
    )
    return _answer(ack)


@csrf_exempt
@_answering
def secrets(request: HttpRequest, fence: int) -> HttpResponse:
    """Nothing → SecretsReply, for the node that is about to start the attempt."""
    _body(request, 0)
    reply = hand_secrets(node=_node_of(request), fence=min(fence, MAX_PK))
    return _answer(reply)


@csrf_exempt
@_answering
def outputs(request: HttpRequest, fence: int) -> HttpResponse:
    """OutputList at `?rank=` → OutputPlan: the bytes that are still wanted."""
    body = _body(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    node = _node_of(request)
    found = decode(OutputList, body)
    rank = min(_number(request, "rank"), 2**31 - 1)
    return _answer(take_output_list(node=node, fence=min(fence, MAX_PK), rank=rank, found=found))


@csrf_exempt
@_answering
def output_part(request: HttpRequest, fence: int, number: int) -> HttpResponse:
    """Raw bytes of a wanted file at `?rank=&offset=` → LogAck."""
    body = _body(request, OUTPUT_PART)
    node = _node_of(request)
    ack = append_output(
        node=node,
        fence=min(fence, MAX_PK),
        rank=min(_number(request, "rank"), 2**31 - 1),
        number=min(number, MAX_PK),
        offset=_number(request, "offset"),
        part=body,
    )
    return _answer(ack)


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
        node, message, reply = await _in_lane(_take_in, request)
        if reply is not None:
            return _answer(reply)
        news: SyncReply | None = None

        async def is_due() -> bool:
            nonlocal news
            news = await _in_lane(
                reply_if_newer, node, message.seen_revision, known=known_to(message)
            )
            return news is not None

        async def looks_again() -> bool:
            found = await _held.standing(node.pk, _read_standings)
            return found is None or found.is_due(node, message.seen_revision)

        with _held.one(node.pk):
            hold_s = min(message.hold_s, MAX_HOLD_S)
            await events.wait_for_node(node.pk, is_due, hold_s, looks_again, looked_at=looked_at)
        return _answer(news or await _in_lane(current_reply, node, known=known_to(message)))
    except Exception as error:
        return _refuse(error)


async def _read_standings(node_ids: list[int]) -> dict[int, Standing]:
    return await _in_lane(standings, node_ids)


def _take_in(request: HttpRequest) -> tuple[Node, SyncRequest, SyncReply | None]:
    body = _body(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    node = _node_of(request)
    message = decode(SyncRequest, body)
    return node, message, sync_node(node=node, request=message)


async def _in_lane(work: Callable[..., Result], *args: object, **kwargs: object) -> Result:
    """Run database work in a lent thread and give both back: a hold must not keep them."""

    def once() -> Result:
        try:
            return work(*args, **kwargs)
        finally:
            give_back_connections()

    async with node_turns.one():
        with lanes.one():
            return await sync_to_async(once)()
