"""A node that an operator takes out of service by hand, whatever its own evidence says, or back;
and which of those that are not heard stay out for maintenance."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler.models import MaintenanceWindow, Node, NodeEvent
from scheduler.services import transitions
from scheduler.services.errors import Conflict, Invalid, NotFound
from scheduler.services.nodes.health import heed_own_trouble
from scheduler.services.nodes.register import require_operator
from scheduler.services.rows.locking import lock_node
from scheduler.states import NodeState, Trouble

# Of one that is silent nobody knows what runs there: a drain waits for its return, this does not.
QUARANTINABLE = (
    NodeState.READY,
    NodeState.DRAINING,
    NodeState.DRAINED,
    NodeState.QUARANTINED,
)
_UNTIL_RESUMED = (Trouble.COPIED, Trouble.DOES_NOT_STOP, Trouble.BY_HAND)
_OUT = (NodeState.DRAINING, NodeState.DRAINED)
_MAX_REASON = 200


def may_be_quarantined(node: Node) -> bool:
    """Whether it is heard and no operator has taken it out yet."""
    is_by_hand = node.state == NodeState.QUARANTINED and node.trouble == Trouble.BY_HAND
    return node.state in QUARANTINABLE and not is_by_hand


@transaction.atomic
def quarantine_by_hand(
    *, actor: User, node: Node, reason: str = "", now: datetime | None = None
) -> Node:
    """Start nothing new there until an operator resumes the node; what runs there goes on.

    It takes the place of a drain, and of a quarantine that would end by itself. Who does it twice
    has done it once. Raises Invalid without a reason, Conflict for a node that is not heard.
    """
    require_operator(actor)
    now = now or timezone.now()
    reason = " ".join(reason.split())[:_MAX_REASON]
    if not reason:
        raise Invalid("Say why, for those who wonder where the node is.", field="reason")
    lock_node(node.pk)
    found = Node.objects.filter(pk=node.pk).first()
    if found is None or found.state == NodeState.RETIRED:
        raise NotFound()
    if found.state not in QUARANTINABLE:
        raise Conflict(
            f"Node {found.name} is {found.state}; nothing starts there. Drain it, and it stays "
            "out of service when it is heard again.",
            code="node_not_heard",
        )
    if may_be_quarantined(found):
        _take_out(found, actor, reason, now)
    found.refresh_from_db()
    return found


def _take_out(node: Node, actor: User, reason: str, now: datetime) -> None:
    if node.state != NodeState.QUARANTINED:
        transitions.move_node(
            node,
            NodeState.QUARANTINED,
            now=now,
            kind="quarantine",
            actor=actor,
            reason=reason,
            trouble=Trouble.BY_HAND,
            drain_requested_at=None,
        )
        return
    Node.objects.filter(pk=node.pk).update(trouble=Trouble.BY_HAND, state_reason=reason)
    transitions.record_node_event(node, "quarantine", now=now, actor=actor, detail=reason)
    transitions.tell_of_node(node.pk)


@transaction.atomic
def resume_node(*, actor: User, node: Node, now: datetime | None = None) -> Node:
    """Let a drained, draining or quarantined node take work again.

    What it has said of itself meanwhile takes it out of service in its turn, until that is over.
    Who resumes it from just that knows better. One that is not heard takes work once it is, and
    needs no second word, whatever it was out for before. Raises Forbidden, Conflict.
    """
    require_operator(actor)
    now = now or timezone.now()
    lock_node(node.pk)
    node.refresh_from_db()
    if node.state == NodeState.RETIRED:
        raise Conflict("The node is retired; enrol it again to use it.")
    if node.state in (NodeState.SILENT, NodeState.LOST) and _is_kept_out(node):
        transitions.record_node_event(
            node, "resume", now=now, actor=actor, detail="once it is heard"
        )
        transitions.tell_of_node(node.pk)
    Node.objects.filter(pk=node.pk).update(drain_requested_at=None, rival=None)
    was_out_for = node.trouble if node.state == NodeState.QUARANTINED else ""
    if node.trouble in _UNTIL_RESUMED:
        Node.objects.filter(pk=node.pk).update(trouble="")
    if node.state in (NodeState.DRAINING, NodeState.DRAINED, NodeState.QUARANTINED):
        transitions.move_node(node, NodeState.READY, now=now, kind="resume", actor=actor)
        if node.own_trouble and node.own_trouble["kind"] != was_out_for:
            heed_own_trouble(node, now=now)
    else:
        node.refresh_from_db()
    return node


def _is_kept_out(node: Node) -> bool:
    """Whether a node that is not heard would be out of service when it is."""
    is_by_hand = node.drain_requested_at is not None or node.trouble in _UNTIL_RESUMED
    return is_by_hand or bool(out_for_maintenance([node.pk]))


def out_for_maintenance(nodes: Collection[int]) -> set[int]:
    """Of these silent or lost nodes those that a window which goes on had taken out of service, and
    that no operator has put back, before they fell silent or since."""
    pools = Node.objects.filter(pk__in=nodes).values("pool")
    going_on = MaintenanceWindow.objects.filter(
        begun_at__isnull=False, ended_at__isnull=True, pool__in=pools
    )
    windows = list(going_on.values_list("begun_at", "drained"))
    drained = {pk for _, one in windows for pk in one}.intersection(nodes)
    if not drained:
        return set()
    since = min(begun_at for begun_at, _ in windows if begun_at)
    told = NodeEvent.objects.filter(node__in=drained, kind__in=("silent", "resume"), at__gte=since)
    last = {event.node_id: event for event in told.order_by("pk")}
    return {pk for pk, one in last.items() if one.kind == "silent" and one.from_state in _OUT}
