"""With how many nodes an elastic job may start."""

from __future__ import annotations

from dataclasses import replace

from scheduler.engine.snapshot import NONE, Request, Snapshot


def sizes_of(snapshot: Snapshot, request: Request, most: int) -> tuple[int, ...]:
    """The numbers of nodes it may start with, none above `most`, the largest first."""
    if not request.nodes_min:
        return (request.nodes,) if request.nodes <= most else ()
    if request.sizes != NONE:
        allowed = snapshot.size_sets[request.sizes]
        least, limit = request.nodes_min, min(most, request.nodes)
        return tuple(sorted((n for n in allowed if least <= n <= limit), reverse=True))
    return tuple(range(min(most, request.nodes), request.nodes_min - 1, -1))


def least_size(snapshot: Snapshot, request: Request) -> int:
    """With how many nodes it can start at all."""
    if not request.nodes_min or request.sizes == NONE:
        return request.least_nodes
    return min(n for n in snapshot.size_sets[request.sizes] if n >= request.nodes_min)


def with_nodes(request: Request, nodes: int) -> Request:
    """An elastic request with just so many nodes; others as they are."""
    if not request.nodes_min:
        return request
    return replace(request, nodes=nodes, nodes_min=0, sizes=NONE)
