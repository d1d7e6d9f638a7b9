"""Times in which a node was not heard while one of its logs grew: gaps that a reader should see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.models.rows import AsJson, as_rows, moment_in, rows_in
from scheduler.models import NodeEvent, Placement
from scheduler.states import NodeState

_AT_MOST = 200
_GONE = (NodeState.SILENT, NodeState.LOST)


@dataclass(frozen=True, slots=True)
class Silence:
    """From when to when; `until` None: still silent, or never heard again."""

    since: datetime
    until: datetime | None


def silences_of(placement: Placement) -> list[Silence]:
    """The silences of the placement's node while its attempt ran, oldest first.

    For a placement whose reader was checked before.
    """
    moves = NodeEvent.objects.filter(node=placement.node_id, at__gte=placement.attempt.assigned_at)
    if placement.attempt.ended_at is not None:
        moves = moves.filter(at__lte=placement.attempt.ended_at)
    return _between(_first(moves).values_list("at", "to_state"))


def silences_among(placements: Sequence[Placement]) -> dict[int, list[Silence]]:
    """By number of the node the silences of all nodes of an attempt, as `silences_of` has those of
    one; one query, none without placements."""
    if not placements:
        return {}
    attempt = placements[0].attempt
    nodes = [one.node_id for one in placements]
    moves = NodeEvent.objects.filter(node__in=nodes, at__gte=attempt.assigned_at)
    if attempt.ended_at is not None:
        moves = moves.filter(at__lte=attempt.ended_at)
    found: dict[int, list[tuple[datetime, str]]] = {}
    for node, at, to in _first(moves).values_list("node_id", "at", "to_state"):
        found.setdefault(node, []).append((at, to))
    return {node: _between(rows) for node, rows in found.items()}


def silences_along(job: int) -> AsJson:
    """Those of the first rank of the job's latest attempt, to come with the row of the job."""
    ranks = Placement.objects.filter(attempt__job=job, rank=0).order_by("-attempt__number")
    node, begin, end = (
        Subquery(ranks.values(name)[:1])
        for name in ("node", "attempt__assigned_at", "attempt__ended_at")
    )
    moves = NodeEvent.objects.filter(node=node, at__gte=begin, at__lte=Coalesce(end, F("at")))
    return as_rows(_first(moves), "pk", "at", "to_state")


def silences_in(text: str | None) -> list[Silence]:
    """What `silences_along` brought; equals `silences_of` that rank."""
    return _between((moment_in(at), to) for _, at, to in sorted(rows_in(text)))


def _first(moves: QuerySet[NodeEvent]) -> QuerySet[NodeEvent]:
    met = moves.filter(Q(to_state__in=_GONE) | Q(from_state__in=_GONE))
    return met.order_by("pk")[:_AT_MOST]


def _between(moves: Iterable[tuple[datetime, str]]) -> list[Silence]:
    found: list[Silence] = []
    since = None
    for at, to in moves:
        if to not in _GONE and since is not None:
            found.append(Silence(since, at))
            since = None
        elif to in _GONE and since is None:
            since = at
    return [*found, Silence(since, None)] if since is not None else found
