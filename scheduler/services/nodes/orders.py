"""What a node should run: the complete truth, read now, in as few statements and bytes as it takes.

A node says which attempts it knows. Of those that go on as they were told it hears the fence alone;
only what it has not heard yet, was given more time, or is to stop, is put together and sent whole.
Of what an earlier instance of it was given and it does not report, it hears nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from accounts.statements import BuiltOnce
from scheduler.models import Node, Placement
from scheduler.services.nodes.assignments import assignments_of, open_placements
from scheduler.services.nodes.credentials import Rights, TokenDead, offered_token
from scheduler.services.nodes.health import due_checks
from scheduler.states import AttemptState, NodeState
from scheduler.wire.messages import (
    PROTOCOL,
    SyncReply,
    SyncRequest,
)

_STANDING = (
    *"pk attempt_id rank left_since".split(),
    *(f"attempt__{name}" for name in "state master_port extended_to_s".split()),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a held call watches: whether there is news, and whether its token is still good."""

    revision: int
    rights: Rights

    def is_due(self, node: Node, seen_revision: int) -> bool:
        """Whether the call of `node` has to be answered."""
        return self.revision != seen_revision or not self.rights.allow(
            node.shown_hash, timezone.now()
        )


_RIGHTS = ("token_hash", "old_token_hash", "old_token_until")


def standings(node_ids: Iterable[int]) -> dict[int, Standing]:
    """One indexed read for many nodes whose calls are held."""
    nodes = Node.objects.filter(pk__in=list(node_ids))
    rows = nodes.values_list("pk", "desired_revision", *_RIGHTS)
    return {pk: Standing(revision, Rights(*rights)) for pk, revision, *rights in rows}


@dataclass(frozen=True, slots=True)
class Known:
    """Fence and rank of what a node reports; `is_kept`: of what goes on the fence is enough;
    `takes_token`: its agent would take another token."""

    ranks: frozenset[tuple[int, int]] = frozenset()
    is_kept: bool = False
    takes_token: bool = False


NOTHING = Known()


def known_to(request: SyncRequest) -> Known:
    """What the node knows by its own word."""
    ranks = frozenset((report.fence, report.rank) for report in request.reports)
    return Known(ranks, request.takes_kept, request.takes_token)


def current_reply(
    node: Node,
    forget: Iterable[int] = (),
    *,
    known: Known = NOTHING,
    now: datetime | None = None,
) -> SyncReply:
    """The complete truth for the node, read now; `known` as `known_to` says.

    The revision is read first: if something changes in between, the node is told the newer state
    under the older number and asks again, which does no harm.
    """
    now = now or timezone.now()
    _read_again(node, now)
    return reply_at(node, forget, known=known, now=now)


def reply_if_newer(node: Node, than: int, *, known: Known = NOTHING) -> SyncReply | None:
    """As `current_reply`; None while the node's revision is the one it has seen."""
    now = timezone.now()
    _read_again(node, now)
    return reply_at(node, known=known, now=now) if node.desired_revision != than else None


def _read_again(node: Node, now: datetime) -> None:
    """What a reply rests on of the node's own row; raises Node.DoesNotExist when it is gone, and
    TokenDead where the token that the call has shown is no longer its."""
    rows = _ROW.read([node.pk], now)
    if not rows:
        raise Node.DoesNotExist
    revision, state, has_checks, next_token, token_hash, *old = rows[0]
    if node.shown_hash and not Rights(token_hash, *old).allow(node.shown_hash, now):
        raise TokenDead
    node.desired_revision, node.state, node.has_checks = revision, state, bool(has_checks)
    node.token_hash, node.next_token = token_hash, next_token


def _row_of(nodes: Sequence[int], _now: datetime) -> QuerySet[Node, tuple[Any, ...]]:
    read = ("desired_revision", "state", "has_checks", "next_token", *_RIGHTS)
    return Node.objects.filter(pk__in=nodes).order_by().values_list(*read)


_ROW = BuiltOnce(_row_of)


def reply_at(
    node: Node,
    forget: Iterable[int] = (),
    *,
    known: Known = NOTHING,
    now: datetime,
) -> SyncReply:
    """As `current_reply`, under the revision and state that `node` was read with a moment ago."""
    kept, told = list[int](), list[int]()
    rows = _OPEN_HERE.rows([node.pk], now)
    for placement_id, fence, rank, left_since, state, master_port, extended in rows:
        is_known = (fence, rank) in known.ranks
        if left_since is not None and not is_known:
            continue
        if state == AttemptState.STOPPING:
            told.append(placement_id)
        elif is_known and known.is_kept and extended is None:
            kept.append(fence)
        elif rank == 0 or master_port is not None:
            # Ranks above 0 start once rank 0's node has reported its port.
            told.append(placement_id)
    return SyncReply(
        protocol=PROTOCOL,
        revision=node.desired_revision,
        node_state=NodeState(node.state),
        assignments=assignments_of(told, now) if told else (),
        forget=tuple(sorted(forget)),
        check=due_checks(node, now=now) if node.has_checks else (),
        kept=tuple(sorted(kept)),
        next_token=_next_token(node) if known.takes_token and node.next_token else "",
    )


def _next_token(node: Node) -> str:
    """For whoever shows the present token; one that shows the old one has not the last word."""
    return (offered_token(node) or "") if node.shown_hash in ("", node.token_hash) else ""


def _open_on(nodes: Sequence[int], now: datetime) -> QuerySet[Placement, tuple[Any, ...]]:
    return open_placements().filter(node__in=nodes).order_by().values_list(*_STANDING)


_OPEN_HERE = BuiltOnce(_open_on)
