"""What a node shows to be itself: one token, replaced by offer and first use.

1. A next token is made and kept sealed, beside its hash.
2. Each answer to an agent that takes one offers the same, so a lost answer costs nothing.
3. The agent writes it down, then uses it. The first call with it makes it the node's token, and the
   one before is good for some seconds more, for calls that are under way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from accounts.errors import DomainError
from accounts.models import User
from accounts.secrets import hash_secret
from accounts.services.audit import record
from accounts.statements import AskedOnce
from scheduler.conf import load_conf
from scheduler.models import Node
from scheduler.services import transitions
from scheduler.services.errors import Conflict
from scheduler.services.nodes.register import new_node_secret, require_operator
from scheduler.services.secrets.cipher import Unsealable, seal, unseal
from scheduler.states import NodeState

OLD_TOKEN_S = 10

logger = logging.getLogger(__name__)


class TokenDead(DomainError):
    """The token opens nothing, or no longer."""

    status = 401
    code = "node_token_invalid"

    def __init__(self) -> None:
        super().__init__(
            "The node token is unknown or replaced, or the node was retired. Enrol the node again."
        )


@dataclass(frozen=True, slots=True)
class Rights:
    """The hashes that a node may show: `old` for as long as `until`."""

    token: str | None
    old: str | None
    until: datetime | None

    def allow(self, shown: str, now: datetime) -> bool:
        """Whether a call with this hash is the node's."""
        if shown == self.token:
            return True
        return shown == self.old and self.until is not None and now < self.until


def authenticate_node(secret: str, *, now: datetime | None = None) -> Node | None:
    """The node a token belongs to; retired nodes are nobody. The next token's first use takes the
    present one's place."""
    return authenticate_nodes([secret], now=now)[0]


def authenticate_nodes(secrets: Sequence[str], *, now: datetime | None = None) -> list[Node | None]:
    """`authenticate_node` for each, with one statement where all show their present token.

    A token that comes twice is one `Node`.
    """
    shown = [hash_secret(secret) for secret in secrets]
    if not shown:
        return []
    # Few sizes make few statements; that a hash comes twice changes nothing.
    size = 1 << max(0, len(shown) - 1).bit_length()
    read: list[Node] = _WITH_TOKENS.read(*shown, *shown[-1:] * (size - len(shown)))
    found: dict[str | None, Node | None] = {node.token_hash: node for node in read}
    for one in shown:
        if one not in found:
            found[one] = _by_another(one, now or timezone.now())
        if (node := found[one]) is not None:
            node.shown_hash = one
    return [found[one] for one in shown]


def _with_tokens(*hashes: str) -> QuerySet[Node]:
    return _here().filter(token_hash__in=hashes).order_by()


def _here() -> QuerySet[Node]:
    return Node.objects.select_related("pool").exclude(state=NodeState.RETIRED)


# Asked with each call of a node.
_WITH_TOKENS = AskedOnce(_with_tokens)


def _by_another(shown: str, now: datetime) -> Node | None:
    either = Q(next_token_hash=shown) | Q(old_token_hash=shown, old_token_until__gt=now)
    node = _here().filter(either).first()
    if node is None or node.next_token_hash != shown:
        return node
    _promote(node, shown, now)
    # Of two first uses one has written; both are the node's.
    return _here().filter(token_hash=shown).first()


@transaction.atomic
def _promote(node: Node, shown: str, now: datetime) -> None:
    moved = Node.objects.filter(pk=node.pk, next_token_hash=shown).update(
        old_token_hash=F("token_hash"),
        old_token_until=now + timedelta(seconds=OLD_TOKEN_S),
        token_hash=shown,
        next_token_hash=None,
        next_token=None,
        token_since=now,
    )
    if moved:
        transitions.record_node_event(node, "token_renewed", now=now)
        record(None, "node.renew_token", node, now=now)


@transaction.atomic
def renew_token(*, actor: User, node: Node, now: datetime | None = None) -> Node:
    """Have the node's token replaced at its next call. Asked again before that it is one renewal.

    Raises Conflict where nobody could take it.
    """
    require_operator(actor)
    now = now or timezone.now()
    node.refresh_from_db()
    if node.token_hash is None:
        raise Conflict("The node is retired: its token opens nothing.")
    if offered_token(node) is None and _offer(node, now):
        transitions.record_node_event(node, "token_offered", now=now, actor=actor)
        record(actor, "node.offer_token", node, now=now)
        transitions.change_desired([node.pk])
    node.refresh_from_db()
    return node


def renew_old_tokens(*, now: datetime) -> int:
    """Begin to replace those that are as old as a token may become; how many that were."""
    days = load_conf().node_token_days
    if not days:
        return 0
    since = now - timedelta(days=days)
    is_old = Q(token_since__lte=since) | Q(token_since__isnull=True, created_at__lte=since)
    due = Node.objects.filter(is_old, token_hash__isnull=False, next_token_hash__isnull=True)
    count = 0
    for node in due.order_by("pk"):
        with transaction.atomic():
            if _offer(node, now):
                transitions.record_node_event(node, "token_offered", now=now)
                record(None, "node.offer_token", node, now=now)
                count += 1
    return count


def _offer(node: Node, now: datetime) -> bool:
    """False: somebody else was first."""
    secret = new_node_secret()
    as_read = Node.objects.filter(
        pk=node.pk, token_hash=node.token_hash, next_token_hash=node.next_token_hash
    )
    return bool(
        as_read.update(
            next_token_hash=hash_secret(secret), next_token=seal(secret.encode(), _place(node.pk))
        )
    )


def offered_token(node: Node) -> str | None:
    """The token that waits for the node's agent."""
    if node.next_token is None:
        return None
    try:
        return unseal(node.next_token, _place(node.pk)).decode()
    except Unsealable:
        logger.error(
            "node %s: the token that was offered was sealed under another TRAINYARD_SECRET_KEY; "
            "renew it by hand",
            node.name,
        )
        return None


def _place(node_id: int) -> str:
    return f"node {node_id}, next token"
