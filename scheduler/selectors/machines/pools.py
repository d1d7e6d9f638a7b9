"""One pool: what it has, who waits for it, and who holds it, team by team.

Sums of a team are told to those who may see its jobs; the others are one line together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, F, Min, OuterRef, Q, Sum

from accounts.models import User
from accounts.permissions import can, team_ids_for
from scheduler.models import Allocation, Device, Job, Pool
from scheduler.states import DeviceHealth, JobState, NodeState


@dataclass(frozen=True, slots=True)
class Flavour:
    """GPUs of one model in a pool: total = held + free + out."""

    model: str
    nodes: int
    total: int
    held: int
    out: int

    @property
    def free(self) -> int:
        return self.total - self.held - self.out


@dataclass(slots=True)
class TeamShare:
    """What a team holds and waits for; without a name: all whose jobs the viewer may not see."""

    team: str
    held: int = 0
    jobs: int = 0
    gpus: int = 0
    gpu_s: int = 0
    oldest: datetime | None = None

    def add(self, jobs: int, gpus: int, gpu_s: int, oldest: datetime | None) -> None:
        """Count more that wait."""
        self.jobs, self.gpus, self.gpu_s = self.jobs + jobs, self.gpus + gpus, self.gpu_s + gpu_s
        self.oldest = min((at for at in (self.oldest, oldest) if at), default=None)


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool at a glance. `jain` is of what the teams hold that want anything: 1 is equal, None
    with fewer than two of them.
    """

    pool: Pool
    flavours: tuple[Flavour, ...]
    teams: tuple[TeamShare, ...]
    jain: float | None
    all_: TeamShare = field(default_factory=lambda: TeamShare(""))


def pool_view(viewer: User, pool: Pool) -> PoolView:
    """Three statements and what the viewer's rights take, however many jobs and GPUs."""
    seen = None if can(viewer, "see_jobs", None) else team_ids_for(viewer)
    shares: dict[int, TeamShare] = {}
    whole = TeamShare("")
    for team, slug, *figures in _waiting(pool):
        shares.setdefault(team, TeamShare(slug)).add(*figures)
        whole.add(*figures)
    held = Allocation.objects.filter(released_at__isnull=True, device__node__pool=pool)
    owner = "placement__attempt__job__project__team"
    rows = held.order_by().values_list(owner, f"{owner}__slug").annotate(Count("pk"))
    for team, slug, count in rows:
        shares.setdefault(team, TeamShare(slug)).held += count
        whole.held += count
    jain = _jain([one.held for one in shares.values()])
    return PoolView(pool, tuple(_flavours(pool)), tuple(_told(shares, seen)), jain, whole)


def _waiting(pool: Pool) -> Iterable[tuple[Any, ...]]:
    gpus = F("nodes") * F("gpus_per_node")
    waiting = Job.objects.filter(pool=pool, state=JobState.QUEUED).order_by()
    return waiting.values_list("project__team", "project__team__slug").annotate(
        jobs=Count("pk"),
        wanted=Sum(gpus),
        gpu_s=Sum(gpus * F("time_limit_s")),
        oldest=Min("queued_at"),
    )


def _told(shares: dict[int, TeamShare], seen: frozenset[int] | None) -> Iterable[TeamShare]:
    """Most GPUs first; the others' together at the end."""
    others = TeamShare("")
    own = []
    for team, share in shares.items():
        if seen is None or team in seen:
            own.append(share)
        else:
            others.held += share.held
            others.add(share.jobs, share.gpus, share.gpu_s, share.oldest)
    own.sort(key=lambda one: (-one.held, -one.gpus, one.team))
    return [*own, others] if others.held or others.jobs else own


def _flavours(pool: Pool) -> Iterable[Flavour]:
    usable = Q(node__state=NodeState.READY, health=DeviceHealth.HEALTHY)
    # Not by a join: a device has a row for every job it ever served.
    is_held = Exists(Allocation.objects.filter(device=OuterRef("pk"), released_at__isnull=True))
    devices = Device.objects.filter(node__pool=pool, is_present=True, in_service=True)
    rows = (
        devices.exclude(node__state=NodeState.RETIRED)
        .order_by("model")
        .values_list("model")
        .annotate(
            Count("node", distinct=True),
            Count("pk"),
            held=Count("pk", filter=is_held),
            out=Count("pk", filter=Q(~usable, ~is_held)),
        )
    )
    return [Flavour(*row) for row in rows]


def _jain(held: list[int]) -> float | None:
    """Jain, Chiu, Hawe, A quantitative measure of fairness, DEC-TR-301, 1984."""
    squares = sum(one * one for one in held)
    return sum(held) ** 2 / (len(held) * squares) if len(held) > 1 and squares else None
