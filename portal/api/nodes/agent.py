"""The calls a node makes: enrol, log, secrets, outputs; all `scheduler/wire` messages. The one it
always makes is in `syncing.py`.

A node token opens these and nothing else; no cookie is read, so nothing here needs CSRF.
Every refusal is a `Refusal` with a stable code.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from portal.api.nodes.calls import Refused, answer, body_of, in_lane, node_of, refuse
from scheduler.models import Node
from scheduler.services.errors import Conflict, LogGap, NotFound
from scheduler.services.kept.outputs import append_output, take_output_list
from scheduler.services.logs import append_log
from scheduler.services.nodes import enrol_node
from scheduler.services.secrets import hand_secrets
from scheduler.tallies import Tally, tally
from scheduler.wire.codec import decode
from scheduler.wire.messages import MAX_LOG_CHUNK, EnrolRequest
from scheduler.wire.outputs import OUTPUT_PART, OutputList

MAX_ENROL_BYTES = 256 * 1024
MAX_PK = 2**63 - 1

logger = logging.getLogger(__name__)


def _answering(
    work: Callable[..., HttpResponse],
) -> Callable[..., Coroutine[None, None, HttpResponse]]:
    """A view that answers every exception with a Refusal."""

    @wraps(work)
    async def answered(request: HttpRequest, **kwargs: object) -> HttpResponse:
        try:
            return await in_lane(work, request, **kwargs)
        except Exception as error:
            if what := _tally_of(error, kwargs):
                tally(what)
            return refuse(error)

    return answered


def _tally_of(error: Exception, asked: Mapping[str, object]) -> Tally | None:
    """What a refusal is counted as."""
    if isinstance(error, LogGap):
        return Tally.GAP_REFUSED
    is_stale = isinstance(error, NotFound) or getattr(error, "code", "") == "log_closed"
    return Tally.STALE_NODE if is_stale and "fence" in asked else None


def _number(request: HttpRequest, name: str) -> int:
    values = request.GET.getlist(name)
    text = values[0] if len(values) == 1 else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Refused(400, "malformed", f"{name} must be given once, as a whole number from 0.")
    return int(text)


def _refuse_damaged(request: HttpRequest, node: Node, offset: int, body: bytes) -> None:
    """Raises Conflict where other bytes arrived than the node has read; it sends them again."""
    told = request.GET.get("sha256")
    if told is None or told == hashlib.sha256(body).hexdigest():
        return
    logger.warning("what node %s sent of a log from byte %d on arrived damaged", node.pk, offset)
    raise Conflict(
        "The bytes are not those of the digest; send them again.",
        code="log_damaged",
        facts={"expected": str(offset)},
    )


@csrf_exempt
@_answering
def enrol(request: HttpRequest) -> HttpResponse:
    """EnrolRequest → 201 EnrolReply."""
    message = decode(EnrolRequest, body_of(request, MAX_ENROL_BYTES))
    return answer(enrol_node(request=message), 201)


@csrf_exempt
@_answering
def log(request: HttpRequest, fence: int) -> HttpResponse:
    """Raw bytes at `?rank=&offset=&sha256=` → LogAck; 409 `log_gap` names the offset to go on from.

    Older agents send no digest.
    """
    body = body_of(request, MAX_LOG_CHUNK)
    node = node_of(request)
    rank, offset = _number(request, "rank"), _number(request, "offset")
    _refuse_damaged(request, node, offset, body)
    ack = append_log(
        node=node, fence=min(fence, MAX_PK), rank=min(rank, 2**31 - 1), offset=offset, body=body
    )
    return answer(ack)


@csrf_exempt
@_answering
def secrets(request: HttpRequest, fence: int) -> HttpResponse:
    """Nothing → SecretsReply, for the node that is about to start the attempt."""
    body_of(request, 0)
    reply = hand_secrets(node=node_of(request), fence=min(fence, MAX_PK))
    return answer(reply)


@csrf_exempt
@_answering
def outputs(request: HttpRequest, fence: int) -> HttpResponse:
    """OutputList at `?rank=` → OutputPlan: the bytes that are still wanted."""
    body = body_of(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    node = node_of(request)
    found = decode(OutputList, body)
    rank = min(_number(request, "rank"), 2**31 - 1)
    return answer(take_output_list(node=node, fence=min(fence, MAX_PK), rank=rank, found=found))


@csrf_exempt
@_answering
def output_part(request: HttpRequest, fence: int, number: int) -> HttpResponse:
    """Raw bytes of a wanted file at `?rank=&offset=` → LogAck."""
    body = body_of(request, OUTPUT_PART)
    node = node_of(request)
    ack = append_output(
        node=node,
        fence=min(fence, MAX_PK),
        rank=min(_number(request, "rank"), 2**31 - 1),
        number=min(number, MAX_PK),
        offset=_number(request, "offset"),
        part=body,
    )
    return answer(ack)
