"""A silent node that two people know to be without power is given up before its time.

What runs on it could otherwise still run: nothing but the end of its grace, its own word, or its
power being off says that it does not.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler import events
from scheduler.models import Node
from scheduler.services import transitions
from scheduler.services.errors import Conflict, Invalid, NotFound
from scheduler.services.nodes.register import require_operator
from scheduler.services.reaping import give_up_attempts_on
from scheduler.services.rows.locking import lock_node
from scheduler.states import NodeState

_MAX_REASON = 200


@transaction.atomic
def say_node_is_off(
    *, actor: User, node: Node, reason: str = "", now: datetime | None = None
) -> Node:
    """Say that a silent node has no power, and how that is known; the second operator to say so
    gives it up, and its jobs run elsewhere.

    Who says it twice has said it once. What was said counts until the node is heard again. Raises
    Conflict where the node is not silent, Invalid without a reason.
    """
    require_operator(actor)
    now = now or timezone.now()
    lock_node(node.pk)
    found = Node.objects.filter(pk=node.pk).first()
    if found is None:
        raise NotFound
    if found.state != NodeState.SILENT:
        raise Conflict(
            f"Node {found.name} is {found.state}. Only a node that has fallen silent can be "
            "called off; drain one that is heard.",
            code="node_not_silent",
        )
    reason = " ".join(reason.split())[:_MAX_REASON]
    if not reason:
        raise Invalid("Say how you know that it has no power.", field="reason")
    said = found.off_by_one
    if said is not None and said["by"] != actor.pk:
        _give_up(found, actor, reason, said["by_name"], now)
    elif said is None:
        claim = {"by": actor.pk, "by_name": actor.username, "at": now.timestamp()}
        Node.objects.filter(pk=found.pk).update(said_off={**claim, "reason": reason})
        transitions.record_node_event(
            found, "said_off", now=now, actor=actor, detail=f"{reason}; a second person confirms it"
        )
    found.refresh_from_db()
    return found


def _give_up(node: Node, actor: User, reason: str, first: str, now: datetime) -> None:
    moved = transitions.move_node(
        node,
        NodeState.LOST,
        now=now,
        kind="powered_off",
        actor=actor,
        reason=f"without power, say {first} and {actor.username}: {reason}",
        said_off=None,
    )
    if moved:
        give_up_attempts_on(node, now)
        events.wake_scheduler_on_commit()
