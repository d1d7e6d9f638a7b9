"""One node, one machine: a second one that speaks with a copied identity gets no work.

A machine that was started again has another boot id, and so has a copy of it. They differ in one
thing: of the machine that was started again nothing more is heard. So a new boot id is refused
while the known one was heard within its lease, and taken up after that. If the known machine
speaks again meanwhile, there are two. The newcomer is then refused for good, the node quarantined
until an operator resumes it; what runs there goes on and is reported.

A copy on the same host, in another container or from a snapshot of a running machine, has the same
boot id. Agents name themselves anew at each start: of one that was started again nothing more is
heard, so two that speak in turn are two.

Nor does a node speak of what runs on another: who does so has a token that is not its own.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from scheduler.conf import load_conf
from scheduler.models import Attempt, Node
from scheduler.services import transitions
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.nodes.health import quarantine_node
from scheduler.states import LIVE_ATTEMPT_STATES, NodeState, Trouble
from scheduler.wire.messages import SyncRequest

# By how much a machine must speak later than the other to be alive beside it: calls may arrive
# late or twice, and the clocks of two machines differ a little.
_LATER_S = 2.0


def admit_machine(node: Node, request: SyncRequest, *, now: datetime) -> None:
    """Refuse a second machine. Call outside of a transaction: what is noted outlives the refusal.

    Raises Conflict: `node_identity_in_use`, to be tried again, or `node_identity_conflict`, final.
    """
    boot, rival = request.boot_id[:64], node.rival or {}
    if rival.get("is_copy") and "agent_id" in rival and request.agent_id[:64] != rival["agent_id"]:
        raise _conflict(node)
    if boot == node.boot_id or not node.boot_id or node.last_seen_at is None:
        return
    if rival.get("is_copy"):
        raise _conflict(node)
    if now - node.last_seen_at < load_conf().node_lease:
        # What was under way while the known machine spoke is an old call of an earlier start.
        if request.sent_at > node.last_seen_at.timestamp() + node.clock_skew_s:
            rival = {"boot_id": boot, "sent_at": request.sent_at, "is_copy": False}
            free = Q(rival__isnull=True) | Q(rival__has_key="agent_id")
            Node.objects.filter(free, pk=node.pk).update(rival=rival)
        raise Conflict(
            f"Node {node.name} was heard from another machine, or before its last start, within "
            "the lease; trying again until that is over.",
            code="node_identity_in_use",
        )


def judge_identity(node: Node, request: SyncRequest, *, now: datetime) -> None:
    """The machine that was admitted speaks: is the other one that spoke alive beside it?"""
    rival = node.rival
    if rival is not None and rival["is_copy"]:
        return
    if request.boot_id[:64] == node.boot_id and (rival is None or "agent_id" in rival):
        _judge_agents(node, rival, request, now)
        return
    if rival is None:
        return
    if request.boot_id[:64] != node.boot_id:
        # Nothing was heard of the other for a whole lease: a start, not a copy.
        Node.objects.filter(pk=node.pk).update(rival=None)
    elif request.sent_at > rival["sent_at"] + _LATER_S:
        detail = f"boots {node.boot_id[:8]} and {rival['boot_id'][:8]}"
        _note_copy(node, rival, detail, now)


class AttemptOfAnother(Forbidden):
    """A node reports an attempt that runs elsewhere: nothing of its call is believed."""

    code = "attempt_of_another_node"


def refuse_attempts_of_others(fences: Collection[int]) -> None:
    """Of these, which this node never had, none may be alive; raises AttemptOfAnother.

    What has ended, and what nobody knows of, it may report: its spool can be older than its name
    here, and than the database that was put back.
    """
    alive = Attempt.objects.filter(pk__in=fences, state__in=LIVE_ATTEMPT_STATES)
    found = alive.order_by("pk").values_list("pk", flat=True).first()
    if found is not None:
        raise AttemptOfAnother(
            f"Attempt {found} runs on another node. This one is out of service until an operator "
            "has looked at it: two machines may share its token."
        )


def shut_out(node: Node, refused: AttemptOfAnother, now: datetime) -> None:
    """Quarantine a node for what it said. Call it once the refused call was rolled back."""
    with transaction.atomic():
        node.refresh_from_db()
        quarantine_node(node, Trouble.COPIED, refused.detail.partition(".")[0], now)


def _judge_agents(
    node: Node, replaced: dict[str, Any] | None, request: SyncRequest, now: datetime
) -> None:
    """Two agents of one boot: the one that was replaced speaks again, later than the other began.

    A call of it that was on its way since before was sent earlier.
    """
    agent = request.agent_id[:64]
    if not node.agent_id or agent == node.agent_id:
        return
    if replaced is None or replaced["agent_id"] != agent:
        note = {"agent_id": node.agent_id, "sent_at": request.sent_at, "is_copy": False}
        Node.objects.filter(pk=node.pk).update(rival=note)
    elif request.sent_at > replaced["sent_at"] + _LATER_S:
        detail = f"agents {agent[:8]} and {node.agent_id[:8]} of one boot"
        # The one that was there first goes on; whatever starts beside it has another name.
        _note_copy(node, replaced, detail, now)


def _note_copy(node: Node, rival: dict[str, Any], detail: str, now: datetime) -> None:
    Node.objects.filter(pk=node.pk).update(rival={**rival, "is_copy": True})
    if node.state == NodeState.READY:
        quarantine_node(node, Trouble.COPIED, detail, now)
    else:
        transitions.record_node_event(node, "identity_copied", now=now, detail=detail)


def _conflict(node: Node) -> Conflict:
    return Conflict(
        f"Two machines spoke as node {node.name}. If this is the copy, remove its state folder and "
        "enrol it under a name of its own; if it is the right one, have an operator resume the "
        "node, then start this agent again.",
        code="node_identity_conflict",
    )
