"""What the nodes of an attempt did beside its devices: processors, memory, scratch disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from accounts.models import User
from scheduler.models import Attempt, HostSample, Job, Node
from scheduler.selectors.jobs import check_visible
from scheduler.selectors.kept.picked import Picked, moments_between
from scheduler.selectors.telemetry import CHART_POINTS, FULL, check_measures, span_of


@dataclass(slots=True)
class HostSeries:
    """One node over time; the lists have equal length, oldest first."""

    uuid: str
    rank: int
    node: str
    is_simulated: bool = False
    at: list[datetime] = field(default_factory=list)
    host_cpu_percent: list[float] = field(default_factory=list)
    host_memory_mib: list[int] = field(default_factory=list)
    host_scratch_mib: list[int] = field(default_factory=list)


def hosts_since(
    viewer: User,
    job: Job,
    *,
    attempt_number: int | None = None,
    since: datetime | None = None,
    now: datetime,
) -> list[HostSeries]:
    """What came since then of an attempt, the latest by default; none where there is no such one.

    Raises NotFound for a foreign job, Forbidden for a role that sees jobs but not what they do.
    """
    check_visible(viewer, job)
    attempts = job.attempts.order_by("-number").defer("code_patch")
    if attempt_number is not None:
        attempts = attempts.filter(number=attempt_number)
    attempt = attempts.prefetch_related("placements__node").first()
    return host_series(viewer, job, attempt, since=since, now=now) if attempt else []


def host_series(
    viewer: User,
    job: Job,
    attempt: Attempt,
    *,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[HostSeries]:
    """Of an attempt that is there with its placements, the first nodes by rank; one statement.

    Whole nodes: what other jobs did there is in it. Raises Forbidden.
    """
    check_measures(viewer, job)
    begin, end = span_of(attempt, now, since=since, until=until)
    placements = sorted(attempt.placements.all(), key=lambda one: one.rank)[:FULL]
    found = {
        one.node_id: HostSeries(f"host-{one.node_id}", one.rank, one.node.name)
        for one in placements
    }
    nodes = Node.objects.filter(pk__in=list(found))
    readings = HostSample.objects.filter(at__gt=begin, at__lte=end)
    picked = Picked(readings, nodes, moments_between(begin, end, CHART_POINTS), by="node_id")
    rows = HostSample.objects.filter(pk__in=picked).order_by("at")
    for node, at, cpu, memory, scratch in rows.values_list(
        "node_id", "at", "cpu_percent", "memory_used_mib", "scratch_free_mib"
    ):
        one = found[node]
        one.at.append(at)
        one.host_cpu_percent.append(cpu)
        one.host_memory_mib.append(memory)
        one.host_scratch_mib.append(scratch)
    return [one for one in found.values() if one.at]
