"""What a node should run: the complete truth, read now, in as few statements and bytes as it takes.

A node says which attempts it knows. Of those that go on as they were told it hears the fence alone;
only what it has not heard yet, was given more time, or is to stop, is put together and sent whole.
Of what an earlier instance of it was given and it does not report, it hears nothing; nor, while it
keeps jobs apart less than its pool wants, of what it would only begin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from scheduler.states import AttemptState, NodeState, is_enough
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
    `takes_token`: its agent would take another token; `alive`: fences that have not ended there."""

    ranks: frozenset[tuple[int, int]] = frozenset()
    is_kept: bool = False
    takes_token: bool = False
    alive: frozenset[int] = frozenset()


NOTHING = Known()


def known_to(request: SyncRequest) -> Known:
    """What the node knows by its own word."""
    ranks = frozenset((report.fence, report.rank) for report in request.reports)
    states = {report.fence: report.state for report in request.reports}
    alive = frozenset(fence for fence, state in states.items() if state != AttemptState.ENDED)
    return Known(ranks, request.takes_kept, request.takes_token, alive)


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose reply: a node, the fences it may forget, and what it knows as `known_to` says.

    `seen_revision`: no reply while the node's revision is this one.
    """

    node: Node
    forget: Collection[int] = ()
    known: Known = NOTHING
    seen_revision: int | None = None


# None where there is none yet; or why the node gets no other.
Reply = SyncReply | Exception | None


def current_reply(
    node: Node,
    forget: Collection[int] = (),
    *,
    known: Known = NOTHING,
    now: datetime | None = None,
) -> SyncReply:
    """The complete truth for the node, read now; `known` as `known_to` says.

    Raises Node.DoesNotExist when it is gone, and TokenDead where the token that the call has shown
    is no longer its.
    """
    [answer] = current_replies([Asked(node, forget, known)], now=now)
    if isinstance(answer, Exception):
        raise answer
    assert answer is not None
    return answer


def current_replies(asked: Sequence[Asked], *, now: datetime | None = None) -> list[Reply]:
    """The complete truth for each of these nodes, read now.

    The revision is read first: if something changes in between, the node is told the newer state
    under the older number and asks again, which does no harm.
    """
    now = now or timezone.now()
    rows = {pk: row for pk, *row in _ROW.read([one.node.pk for one in asked], now)}
    found: list[Reply] = [_read_again(one.node, rows.get(one.node.pk), now) for one in asked]
    due = [
        place
        for place, one in enumerate(asked)
        if found[place] is None and one.node.desired_revision != one.seen_revision
    ]
    for place, reply in zip(due, replies_at([asked[place] for place in due], now=now), strict=True):
        found[place] = reply
    return found


def _read_again(node: Node, row: Sequence[Any] | None, now: datetime) -> Reply:
    """What a reply rests on of the node's own row; or why there is none."""
    if row is None:
        return Node.DoesNotExist()
    revision, state, has_checks, next_token, isolation, wanted, token_hash, *old = row
    if node.shown_hash and not Rights(token_hash, *old).allow(node.shown_hash, now):
        return TokenDead()
    node.desired_revision, node.state, node.has_checks = revision, state, bool(has_checks)
    node.token_hash, node.next_token = token_hash, next_token
    node.isolation, node.pool.isolation = isolation, wanted
    return None


def _row_of(nodes: Sequence[int], _now: datetime) -> QuerySet[Node, tuple[Any, ...]]:
    kept = ("isolation", "pool__isolation")
    read = ("pk", "desired_revision", "state", "has_checks", "next_token", *kept, *_RIGHTS)
    return Node.objects.filter(pk__in=nodes).order_by().values_list(*read)


_ROW = BuiltOnce(_row_of)


def replies_at(asked: Sequence[Asked], *, now: datetime) -> list[SyncReply]:
    """As `current_replies`, under the revisions and states that the nodes were read with a moment
    ago, whatever they have seen. A fixed number of statements for any number of nodes."""
    by_node: dict[int, list[tuple[Any, ...]]] = {one.node.pk: [] for one in asked}
    for node_id, *row in _OPEN_HERE.rows(list(by_node), now):
        by_node[node_id].append(tuple(row))
    here = [_sorted_out(one, by_node[one.node.pk]) for one in asked]
    wanted = [placement for told, _ in here for _, placement in told]
    assignments = assignments_of(wanted, now) if wanted else {}
    return [
        SyncReply(
            protocol=PROTOCOL,
            revision=one.node.desired_revision,
            node_state=NodeState(one.node.state),
            # What has ended since is told no more.
            assignments=tuple(assignments[pk] for _, pk in told if pk in assignments),
            forget=tuple(sorted(one.forget)),
            check=(
                due_checks(one.node, now=now, alive=one.known.alive) if one.node.has_checks else ()
            ),
            kept=tuple(kept),
            next_token=_next_token(one),
        )
        for one, (told, kept) in zip(asked, here, strict=True)
    ]


def _sorted_out(
    asked: Asked, rows: Sequence[tuple[Any, ...]]
) -> tuple[list[tuple[int, int]], list[int]]:
    """Fence and placement of what is told whole, and the fences of what goes on as it was."""
    told, kept = list[tuple[int, int]](), list[int]()
    known, node = asked.known, asked.node
    may_begin = is_enough(node.isolation, node.pool.isolation)
    for placement_id, fence, rank, left_since, state, master_port, extended in rows:
        is_known = (fence, rank) in known.ranks
        if left_since is not None and not is_known:
            continue
        if state == AttemptState.STOPPING:
            told.append((fence, placement_id))
        elif is_known and known.is_kept and extended is None:
            kept.append(fence)
        elif not (is_known or may_begin):
            continue
        elif rank == 0 or master_port is not None:
            # Ranks above 0 start once rank 0's node has reported its port.
            told.append((fence, placement_id))
    return sorted(told), sorted(kept)


def _next_token(asked: Asked) -> str:
    """For whoever shows the present token; one that shows the old one has not the last word."""
    node = asked.node
    is_offered = asked.known.takes_token and bool(node.next_token)
    if not is_offered or node.shown_hash not in ("", node.token_hash):
        return ""
    return offered_token(node) or ""


def _open_on(nodes: Sequence[int], now: datetime) -> QuerySet[Placement, tuple[Any, ...]]:
    return open_placements().filter(node__in=nodes).order_by().values_list("node_id", *_STANDING)


_OPEN_HERE = BuiltOnce(_open_on)
