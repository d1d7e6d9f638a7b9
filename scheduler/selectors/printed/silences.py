"""Times in which a node was not heard while one of its logs grew: gaps that a reader should see."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from scheduler.models import NodeEvent, Placement
from scheduler.states import NodeState

_AT_MOST = 200


@dataclass(frozen=True, slots=True)
class Silence:
    """From when to when; `until` None: still silent, or never heard again."""

    since: datetime
    until: datetime | None


def silences_of(placement: Placement) -> list[Silence]:
    """The silences of the placement's node while its attempt ran, oldest first.

    For a placement whose reader was checked before.
    """
    gone = (NodeState.SILENT, NodeState.LOST)
    moves = NodeEvent.objects.filter(node=placement.node_id, at__gte=placement.attempt.assigned_at)
    if placement.attempt.ended_at is not None:
        moves = moves.filter(at__lte=placement.attempt.ended_at)
    moves = moves.filter(Q(to_state__in=gone) | Q(from_state__in=gone))
    found: list[Silence] = []
    since = None
    for at, to in moves.order_by("pk").values_list("at", "to_state")[:_AT_MOST]:
        if to not in gone and since is not None:
            found.append(Silence(since, at))
            since = None
        elif to in gone and since is None:
            since = at
    return [*found, Silence(since, None)] if since is not None else found
