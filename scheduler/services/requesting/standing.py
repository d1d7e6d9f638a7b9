"""What somebody has now: limits in force, what is held of them, and what was used lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, Sum, Value

from accounts.models import Project, Team, User
from scheduler.models import Device, Quota
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.requesting import used_lately
from scheduler.services.sharing.effective import Effective, quotas_in_force


@dataclass(frozen=True, slots=True)
class Row:
    """One quota with the grants in force; `is_team`: it holds for the whole team."""

    quota: Quota
    limits: Effective
    is_team: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """`used_gpu_s` are the GPU-seconds of the last 90 days."""

    rows: Sequence[Row]
    used_gpu_s: int


def standing_of(owner: Team | Project, *, now: datetime, used_gpu_s: int | None = None) -> Standing:
    """Of a project also what its team has; two statements, one where the use is known."""
    team_id = owner.team_id if isinstance(owner, Project) else owner.pk
    mine = Q(account__team=team_id)
    if isinstance(owner, Project):
        mine |= Q(account__project=owner)
    quotas = Quota.objects.filter(mine).select_related("account", "pool")
    found = quotas_in_force(quotas, now=now)
    rows = [Row(one, limits, one.account.team_id is not None) for one, limits in found]
    if used_gpu_s is None:
        of_owner = {"project": owner} if isinstance(owner, Project) else {"project__team": owner}
        used = used_lately(now).filter(**of_owner)
        used_gpu_s = used.aggregate(total=Sum("gpu_seconds"))["total"] or 0
    return Standing(rows, used_gpu_s)


def offered_to(viewer: User) -> tuple[list[str], list[str]]:
    """Pools to ask for, and models of GPUs that are or were here, by name; they are no secret."""
    pools = visible_pools(viewer).order_by().values_list(Value("pool"), "name")
    models = Device.objects.order_by().values_list(Value("model"), "model")
    found = pools.union(models)  # each name of a kind once
    return (
        sorted(name for kind, name in found if kind == "pool"),
        sorted(name for kind, name in found if kind == "model"),
    )
