"""Pools and nodes: enrolment, drain and retirement. The held `sync` has its own file."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.secrets import hash_secret
from accounts.services.audit import record
from scheduler import events
from scheduler.models import Node, NodeToken, Placement, Pool, Queue
from scheduler.models.cluster import name_once_retired
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.nodes.health import judge_isolation
from scheduler.services.nodes.inventory import store_devices, store_host
from scheduler.services.rows.locking import lock_devices_of, lock_node
from scheduler.services.stopping import request_stop
from scheduler.services.timeline.segments import follow_node
from scheduler.states import EndReason, Isolation, NodeState
from scheduler.wire.messages import OLDEST_PROTOCOL, PROTOCOL, EnrolReply, EnrolRequest

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)
_RESERVED = frozenset({"new", "api", "enrol", "tokens"})
_NO_OTHER_TOKENS: dict[str, Any] = dict.fromkeys(
    ("next_token_hash", "next_token", "old_token_hash", "old_token_until")
)


def new_node_secret() -> str:
    """A token that nobody can guess, and that whoever looks for leaked ones knows by its prefix."""
    return f"tya_{secrets.token_urlsafe(32)}"


def require_operator(actor: User) -> None:
    """Raises Forbidden."""
    if not can(actor, "operate", None):
        raise Forbidden("Only operators may do this. Ask an operator of the cluster.")


@transaction.atomic
def create_pool(*, actor: User, name: str, description: str = "") -> Pool:
    """A pool with its default queue."""
    require_operator(actor)
    if not _NAME.fullmatch(name) or "." in name or name in _RESERVED:
        raise Invalid(
            "A pool's name is lower-case letters, digits and dashes, such as h100.", field="name"
        )
    try:
        with transaction.atomic():
            pool = Pool.objects.create(name=name, description=description)
    except IntegrityError:
        raise Invalid(f"There is a pool named {name} already.", field="name") from None
    Queue.objects.create(pool=pool, name="default")
    record(actor, "pool.create", pool, after={"description": description})
    return pool


@transaction.atomic
def require_isolation(
    *, actor: User, pool: Pool, isolation: str, now: datetime | None = None
) -> Pool:
    """How far the pool's nodes must keep jobs apart; empty: as they do. What runs goes on."""
    require_operator(actor)
    if isolation and isolation not in list(Isolation):
        raise Invalid(f"Choose one of {', '.join(Isolation)}, or nothing.", field="isolation")
    before, now = pool.isolation, now or timezone.now()
    lock_devices_of(list(pool.nodes.values_list("pk", flat=True)))
    pool.isolation = isolation
    pool.save(update_fields=["isolation"])
    for node in pool.nodes.select_related("pool").exclude(state=NodeState.RETIRED):
        judge_isolation(node, now=now)
    record(
        actor, "pool.isolate", pool, before={"isolation": before}, after={"isolation": isolation}
    )
    return pool


@transaction.atomic
def enrol_node(*, request: EnrolRequest, now: datetime | None = None) -> EnrolReply:
    """Spend the token, make the node, hand out its own secret.

    1. Refuse what can never work: protocol, name.
    2. Spend the token with a guarded update: of two racing requests one wins.
    3. A name that is taken is refused, unless that node is lost or retired.
    4. How far it keeps jobs apart nobody knows yet: where its pool wants more than nothing it takes
       no jobs before its agent says.
    """
    now = now or timezone.now()
    if not OLDEST_PROTOCOL <= request.protocol <= PROTOCOL:
        raise Invalid(
            f"This server speaks protocols {OLDEST_PROTOCOL} to {PROTOCOL}; install a matching "
            "agent.",
            field="protocol",
            code="protocol_unsupported",
        )
    if not _NAME.fullmatch(request.name) or request.name in _RESERVED:
        raise Invalid(
            "A node's name is lower-case letters, digits, dots and dashes, such as gpu-07.",
            field="name",
        )
    token = NodeToken.objects.filter(token_hash=hash_secret(request.token)).first()
    spent = token and NodeToken.objects.filter(
        pk=token.pk, used_at__isnull=True, expires_at__gt=now
    ).update(used_at=now)
    if not token or not spent:
        raise Forbidden(
            "The enrolment token is unknown, used or expired. Ask an operator for a new one.",
            code="enrol_token_invalid",
        )
    secret = new_node_secret()
    node = _new_or_returning(request, token.pool, secret, now)
    store_host(node, request.host)
    store_devices(node, request.devices, now=now)
    judge_isolation(node, now=now)
    NodeToken.objects.filter(pk=token.pk).update(node=node)
    after = {"pool": token.pool.name, "agent_version": node.agent_version}
    record(None, "node.enrol", node, on_behalf_of=token.created_by, after=after, now=now)
    transitions.tell_of_node(node.pk)
    events.wake_scheduler_on_commit()
    return EnrolReply(node_id=node.pk, name=node.name, pool=token.pool.name, node_token=secret)


def _new_or_returning(request: EnrolRequest, pool: Pool, secret: str, now: datetime) -> Node:
    fields = {
        "pool": pool,
        "token_hash": hash_secret(secret),
        "token_since": now,
        **_NO_OTHER_TOKENS,
        "boot_id": request.boot_id[:64],
        "agent_version": request.agent_version[:32],
        "protocol": request.protocol,
        "last_seen_at": now,
        "rival": None,
    }
    old = Node.objects.select_for_update().filter(name=request.name).first()
    if old is None:
        node = Node.objects.create(name=request.name, **fields)
        transitions.record_node_event(node, "enrolled", now=now, to=node.state)
        return node
    if old.state != NodeState.LOST:
        raise Conflict(
            f"A node named {request.name} is enrolled already. Choose another name, or retire "
            "that node first.",
            field="name",
            code="node_name_taken",
        )
    Node.objects.filter(pk=old.pk).update(**fields)
    old.refresh_from_db()
    transitions.record_node_event(old, "enrolled_again", now=now)
    return old


@transaction.atomic
def drain_node(
    *,
    actor: User,
    node: Node,
    reason: str = "",
    stop_jobs: bool = False,
    now: datetime | None = None,
) -> Node:
    """Let running work finish, accept none. Draining twice is a no-op.

    With `stop_jobs` what runs there saves, stops and queues again in its old place; a node that
    drains already may be told so later.
    """
    require_operator(actor)
    now = now or timezone.now()
    lock_node(node.pk)
    node.refresh_from_db()
    if node.state == NodeState.RETIRED:
        raise Conflict("The node is retired.")
    # Out of service for maintenance alone, it would go back by itself.
    is_by_hand = node.drain_requested_at is not None
    if node.state not in (NodeState.DRAINING, NodeState.DRAINED) or not is_by_hand:
        _begin_drain(actor, node, reason, now)
    if stop_jobs:
        _stop_jobs_on(node, actor, now)
    return node


def _begin_drain(actor: User, node: Node, reason: str, now: datetime) -> None:
    Node.objects.filter(pk=node.pk).update(drain_requested_at=now)
    if node.state in (NodeState.READY, NodeState.QUARANTINED, NodeState.LOST):
        transitions.move_node(
            node, NodeState.DRAINING, now=now, kind="drain", actor=actor, reason=reason
        )
    else:
        transitions.record_node_event(node, "drain", now=now, actor=actor, detail=reason)


def _stop_jobs_on(node: Node, actor: User, now: datetime) -> None:
    open_here = Placement.objects.filter(node=node, ended_at__isnull=True).order_by("attempt_id")
    for attempt_id in open_here.values_list("attempt_id", flat=True):
        attempt = locked_live_attempt(attempt_id)
        if attempt is not None:
            request_stop(attempt=attempt, reason=EndReason.NODE_DRAINED, now=now, actor=actor)


@transaction.atomic
def retire_node(*, actor: User, node: Node, now: datetime | None = None) -> Node:
    """Take a node out for good; its history stays. Refused while work is on it."""
    require_operator(actor)
    now = now or timezone.now()
    lock_node(node.pk)
    node = Node.objects.filter(pk=node.pk).first() or _gone()
    if node.state == NodeState.RETIRED:
        return node
    if node.placements.filter(ended_at__isnull=True).exists():
        raise Conflict("Jobs still run on this node. Drain it and wait until it is empty.")
    transitions.move_node(
        node,
        NodeState.RETIRED,
        now=now,
        kind="retire",
        actor=actor,
        token_hash=None,
        **_NO_OTHER_TOKENS,
        name=name_once_retired(node.name, node.pk),
    )
    node.devices.update(is_present=False)
    follow_node(node.pk, now=now, cause="retire")
    return node


def _gone() -> Node:
    raise NotFound()
