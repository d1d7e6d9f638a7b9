"""Topics a browser may watch, and who may. Rights are read from the same selectors as pages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from accounts.held import forget_grants
from accounts.models import User
from accounts.selectors import visible_projects
from scheduler.selectors.cluster import visible_nodes, visible_pools
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.logs import readable_placements

MAX_ID = 2**63 - 1
_ID = r"[1-9][0-9]{0,18}"
_SHAPES = {
    kind: re.compile(pattern, re.ASCII)
    for kind, pattern in {
        "job": rf"job:({_ID})",
        "project": rf"project:({_ID})",
        "node": rf"node:({_ID})",
        "user": rf"user:({_ID})",
        "queue": r"queue:([a-z0-9][a-z0-9-]{0,62})",
        "nodes": r"(nodes)",
        "log": rf"log:({_ID}):([0-9]{{1,5}})",
    }.items()
}


def parse_topic(topic: str) -> tuple[str, tuple[str, ...]] | None:
    """Kind and parts of a well-formed topic; None for anything else."""
    kind = topic.partition(":")[0]
    match = _SHAPES[kind].fullmatch(topic) if kind in _SHAPES else None
    if match is None or any(part.isdigit() and int(part) > MAX_ID for part in match.groups()):
        return None
    return kind, match.groups()


def log_stream_of(topic: str) -> tuple[int, int]:
    """Attempt id and rank of a log topic."""
    parsed = parse_topic(topic)
    if parsed is None or parsed[0] != "log":
        raise ValueError(f"not a log topic: {topic[:40]!r}")
    return int(parsed[1][0]), int(parsed[1][1])


def watchable(viewer: User, topics: Iterable[str]) -> set[str]:
    """Which of these topics the viewer may watch: at most one query per kind of topic."""
    if not viewer.is_authenticated or not viewer.is_active:
        return set()
    forget_grants(viewer)  # a socket's user outlives many changes of rights
    by_kind: dict[str, dict[str, tuple[str, ...]]] = {}
    for topic in topics:
        parsed = parse_topic(topic)
        if parsed is not None:
            by_kind.setdefault(parsed[0], {})[topic] = parsed[1]
    allowed: set[str] = set()
    for kind, wanted in by_kind.items():
        known = _known(viewer, kind, wanted)
        allowed |= {topic for topic, parts in wanted.items() if parts in known}
    return allowed


def _known(viewer: User, kind: str, wanted: dict[str, tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The parts of those wanted topics of one kind that exist for the viewer."""
    firsts = {parts[0] for parts in wanted.values()}
    if kind == "nodes":
        return set(wanted.values())
    if kind == "user":
        return {(str(viewer.pk),)}
    if kind == "log":
        streams = readable_placements(viewer).filter(attempt__in=[int(first) for first in firsts])
        pairs = streams.values_list("attempt_id", "rank")
        return {(str(attempt), str(rank)) for attempt, rank in pairs}
    if kind == "queue":
        pools = visible_pools(viewer).filter(name__in=firsts)
        return {(name,) for name in pools.values_list("name", flat=True)}
    ids = [int(first) for first in firsts]
    rows = {"job": visible_jobs, "node": visible_nodes, "project": visible_projects}[kind](viewer)
    found = rows.filter(pk__in=ids).order_by().values_list("pk", flat=True)
    return {(str(pk),) for pk in found}
