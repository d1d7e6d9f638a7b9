"""Where a node stands and what it has beside GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler import events
from scheduler.models import Node
from scheduler.services import transitions
from scheduler.services.errors import Invalid
from scheduler.services.nodes import require_operator

MAX_LABELS = 32
# Every node has these of itself.
OWN_LABELS = frozenset({"node", "rack", "block"})
_PLACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_LABEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)


@transaction.atomic
def place_node(
    *, actor: User, node: Node, rack: str = "", block: str = "", now: datetime | None = None
) -> Node:
    """Say in which rack and block the node stands; empty for unknown. Raises Forbidden, Invalid."""
    require_operator(actor)
    for field, value in (("rack", rack), ("block", block)):
        if value and not _PLACE.fullmatch(value):
            raise Invalid(
                f"The name of a {field} is letters, digits, dots and dashes, such as {field}-07.",
                field=field,
            )
    words = " in ".join(filter(None, (rack and f"rack {rack}", block and f"block {block}")))
    _change(node, actor, "placed", words or "nowhere in particular", now, rack=rack, block=block)
    return node


@transaction.atomic
def label_node(
    *, actor: User, node: Node, labels: Mapping[str, str], now: datetime | None = None
) -> Node:
    """Give the node exactly these labels. Raises Forbidden, Invalid."""
    require_operator(actor)
    if len(labels) > MAX_LABELS:
        raise Invalid(f"A node has at most {MAX_LABELS} labels.", field="labels")
    for label, value in labels.items():
        if label in OWN_LABELS:
            raise Invalid(
                f"{label} is known of every node already; choose another label.", field="labels"
            )
        if not _LABEL.fullmatch(label) or not _PLACE.fullmatch(value):
            raise Invalid(
                f"{label[:40]}={value[:40]} is not a label; write lower-case names and plain "
                "values, such as network=ib.",
                field="labels",
            )
    words = ", ".join(f"{label}={value}" for label, value in sorted(labels.items()))
    _change(node, actor, "labelled", words or "no labels", now, labels=dict(labels))
    return node


@transaction.atomic
def note_node(
    *,
    actor: User,
    node: Node,
    rack: str,
    block: str,
    labels: Mapping[str, str],
    now: datetime | None = None,
) -> Node:
    """Place and labels at once, or neither. Raises Forbidden, Invalid."""
    place_node(actor=actor, node=node, rack=rack, block=block, now=now)
    return label_node(actor=actor, node=node, labels=labels, now=now)


def _change(
    node: Node, actor: User, kind: str, words: str, now: datetime | None, **fields: object
) -> None:
    Node.objects.filter(pk=node.pk).update(**fields)
    node.refresh_from_db()
    now = now or timezone.now()
    transitions.record_node_event(node, kind, now=now, actor=actor, detail=words[:255])
    transitions.tell_of_node(node.pk)
    events.wake_scheduler_on_commit()
