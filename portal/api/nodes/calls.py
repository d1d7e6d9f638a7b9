"""What all calls of nodes have in common: who calls, how they are refused, and on which thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse

from accounts.errors import DomainError
from portal import limits
from portal.api.holding import give_back_connections
from portal.doors import lanes, node_turns
from portal.outages import (
    BEHIND,
    is_database_away,
    is_database_behind,
    is_disk_full,
    is_exhausted,
)
from scheduler.models import Node
from scheduler.services.nodes import authenticate_node
from scheduler.services.nodes.credentials import TokenDead
from scheduler.wire.codec import WireError, encode
from scheduler.wire.messages import Refusal

logger = logging.getLogger(__name__)

_STATUS_OF_CODE = {"protocol_unsupported": 426}

Result = TypeVar("Result")


class Refused(Exception):
    """What the call is answered with."""

    def __init__(self, status: int, code: str, detail: str, wait_s: int = 0) -> None:
        super().__init__(detail)
        self.wait_s = wait_s
        self.status, self.refusal = status, Refusal(code, detail)


def answer(message: object, status: int = 200) -> HttpResponse:
    """A message of `scheduler/wire` as it is sent."""
    told = HttpResponse(encode(message), status=status, content_type="application/json")
    # There may be a token in it.
    told["Cache-Control"] = "no-store"
    return told


def refuse(error: Exception) -> HttpResponse:
    """Any exception as a Refusal; a busy database is 503, which agents try again."""
    if isinstance(error, Refused):
        told = answer(error.refusal, error.status)
        if error.wait_s:
            told["Retry-After"] = str(error.wait_s)
        return told
    if isinstance(error, WireError):
        return answer(Refusal("malformed", str(error), {"field": error.path}), 400)
    if isinstance(error, DomainError):
        facts = {key: str(value) for key, value in error.facts.items()}
        if error.field:
            facts["field"] = error.field
        refusal = Refusal(error.code, error.detail, facts)
        return answer(refusal, _STATUS_OF_CODE.get(error.code, error.status))
    if isinstance(error, RequestDataTooBig):
        return answer(Refusal("too_large", "The message is larger than allowed."), 413)
    if is_database_behind(error):
        logger.error("a node is told to try again: %s", BEHIND)
        return answer(Refusal("unavailable", BEHIND), 503)
    if is_database_away(error):
        logger.warning("a node is told to try again: %s", error)
        return answer(Refusal("unavailable", "The database is busy. Try again."), 503)
    if is_disk_full(error):
        logger.error("the disk below the stored files is full: %s", error)
        return answer(Refusal("unavailable", "The server's disk is full. Try again."), 503)
    if is_exhausted(error):
        logger.error("the server has no more memory, files or threads: %s", error)
        return answer(Refusal("unavailable", "The server is busy. Try again."), 503)
    logger.error("a node's call failed", exc_info=error)
    return answer(Refusal("server_error", "Something broke on the server."), 500)


def body_of(request: HttpRequest, limit: int) -> bytes:
    """What was sent, of this many bytes at most; raises Refused."""
    if request.method != "POST":
        raise Refused(405, "method_not_allowed", "Use POST.")
    if request.headers.get("Transfer-Encoding"):
        raise Refused(411, "length_required", "Send the body with a Content-Length.")
    declared = request.headers.get("Content-Length") or "0"
    if not declared.isdigit() or int(declared) > limit:
        raise Refused(413, "too_large", f"Send at most {limit} bytes.")
    return request.body


def node_of(request: HttpRequest) -> Node:
    """Who calls; raises TokenDead, Refused."""
    return welcome(authenticate_node(secret_of(request)))


def secret_of(request: HttpRequest) -> str:
    """The token that is shown; raises TokenDead, Refused."""
    if settings.SECURE_SSL_REDIRECT and not request.is_secure():
        # Not sent elsewhere, as a page would be: the token has been on the wire already.
        raise Refused(403, "https_required", "Use HTTPS, and a new token: this one was readable.")
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or len(secret) > 256 or not secret.isascii() or not secret:
        raise TokenDead
    return secret


def welcome(node: Node | None) -> Node:
    """The node whose token it is, if it may call now; raises TokenDead, Refused."""
    if node is None:
        raise TokenDead
    if wait_s := limits.own_wait_s(limits.NODE, node.pk):
        raise Refused(
            429, "too_many_calls", f"Too many calls of this node; wait {wait_s} s.", wait_s
        )
    return node


async def in_lane(work: Callable[..., Result], *args: object, **kwargs: object) -> Result:
    """Run database work in a lent thread and give both back: a hold must not keep them."""
    async with node_turns.one():
        with lanes.one():
            found: Result = await _in_thread(partial(work, *args, **kwargs))
            return found


def _once(work: Callable[[], Any]) -> Any:
    try:
        return work()
    finally:
        give_back_connections()


# Made once: making it looks at the signature.
_in_thread = sync_to_async(_once)
