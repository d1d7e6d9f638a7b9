"""One node, one machine: a second one that speaks with a copied identity gets no work.

A machine that was started again has another boot id, and so has a copy of it. They differ in one
thing: of the machine that was started again nothing more is heard. So a new boot id is refused
while the known one was heard within its lease, and taken up after that. If the known machine
speaks again meanwhile, there are two. The newcomer is then refused for good, the node quarantined
until an operator resumes it; what runs there goes on and is reported.
"""

from __future__ import annotations

from datetime import datetime

from scheduler.conf import load_conf
from scheduler.models import Node
from scheduler.services import transitions
from scheduler.services.errors import Conflict
from scheduler.services.nodes.health import quarantine_node
from scheduler.states import NodeState, Trouble
from scheduler.wire.messages import SyncRequest

# By how much a machine must speak later than the other to be alive beside it: calls may arrive
# late or twice, and the clocks of two machines differ a little.
_LATER_S = 2.0


def admit_machine(node: Node, request: SyncRequest, *, now: datetime) -> None:
    """Refuse a second machine. Call outside of a transaction: what is noted outlives the refusal.

    Raises Conflict: `node_identity_in_use`, to be tried again, or `node_identity_conflict`, final.
    """
    boot = request.boot_id[:64]
    if boot == node.boot_id or not node.boot_id or node.last_seen_at is None:
        return
    if (node.rival or {}).get("is_copy"):
        raise Conflict(
            f"Another machine is node {node.name}. Remove this copy's state folder and enrol it "
            "under a name of its own.",
            code="node_identity_conflict",
        )
    if now - node.last_seen_at < load_conf().node_lease:
        # What was under way while the known machine spoke is an old call of an earlier start.
        if request.sent_at > node.last_seen_at.timestamp() + node.clock_skew_s:
            rival = {"boot_id": boot, "sent_at": request.sent_at, "is_copy": False}
            Node.objects.filter(pk=node.pk, rival__isnull=True).update(rival=rival)
        raise Conflict(
            f"Node {node.name} was heard from another machine, or before its last start, within "
            "the lease; trying again until that is over.",
            code="node_identity_in_use",
        )


def judge_identity(node: Node, request: SyncRequest, *, now: datetime) -> None:
    """The machine that was admitted speaks: is the other one that spoke alive beside it?"""
    rival = node.rival
    if rival is None or rival["is_copy"]:
        return
    if request.boot_id[:64] != node.boot_id:
        # Nothing was heard of the other for a whole lease: a start, not a copy.
        Node.objects.filter(pk=node.pk).update(rival=None)
    elif request.sent_at > rival["sent_at"] + _LATER_S:
        Node.objects.filter(pk=node.pk).update(rival={**rival, "is_copy": True})
        detail = f"boots {node.boot_id[:8]} and {rival['boot_id'][:8]}"
        if node.state == NodeState.READY:
            quarantine_node(node, Trouble.COPIED, detail, now)
        else:
            transitions.record_node_event(node, "identity_copied", now=now, detail=detail)
