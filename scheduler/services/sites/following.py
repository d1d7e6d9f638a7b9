"""Nodes follow their maintenance windows: out of service when one begins, back when it is over."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.statements import AskedOnce
from scheduler.models import MaintenanceWindow, Node
from scheduler.services import transitions
from scheduler.services.nodes.health import heed_own_trouble
from scheduler.states import NodeState, moment_words

_OUT = (NodeState.DRAINING, NodeState.DRAINED)


def follow_windows(*, now: datetime) -> int:
    """Begin and end what is due; returns how many nodes were moved. One query if nothing is.

    Only nodes that were ready are taken out, once, and only those go back: what an operator drains,
    before or meanwhile, stays drained. Jobs that run there are left alone.
    """
    count = 0
    for (pk,) in _DUE.read(now):
        with transaction.atomic():
            window = MaintenanceWindow.objects.select_for_update().get(pk=pk)
            count += _begin(window, now) if window.begun_at is None else _end(window, now)
    return count


def _due_at(now: datetime) -> QuerySet[MaintenanceWindow, tuple[Any, ...]]:
    is_over = Q(until_at__lte=now) | Q(cancelled_at__isnull=False)
    due = MaintenanceWindow.objects.filter(
        Q(begun_at__isnull=True, from_at__lte=now, until_at__gt=now, cancelled_at__isnull=True)
        | (Q(begun_at__isnull=False, ended_at__isnull=True) & is_over)
    )
    # Those that end come first, so that one that follows at once takes over their nodes.
    return due.order_by("from_at", "pk").values_list("pk")


_DUE = AskedOnce(_due_at)


def _begin(window: MaintenanceWindow, now: datetime) -> int:
    nodes = Node.objects.filter(pool=window.pool_id, state=NodeState.READY)
    if window.nodes:
        nodes = nodes.filter(pk__in=window.nodes)
    words = f"maintenance until {moment_words(window.until_at)}"
    reason = f"{words}: {window.reason}" if window.reason else words
    moved = transitions.move_nodes(nodes, NodeState.DRAINING, now=now, kind="drain", reason=reason)
    window.drained, window.begun_at = sorted(moved), now
    window.save(update_fields=["drained", "begun_at"])
    return len(moved)


def _end(window: MaintenanceWindow, now: datetime) -> int:
    window.ended_at = now
    window.save(update_fields=["ended_at"])
    nodes = Node.objects.filter(pk__in=window.drained, state__in=_OUT, drain_requested_at=None)
    back = transitions.move_nodes(
        nodes, NodeState.READY, now=now, kind="resume", reason="maintenance is over"
    )
    for node in Node.objects.filter(pk__in=back, own_trouble__isnull=False).order_by("pk"):
        heed_own_trouble(node, now=now)
    return len(back)
