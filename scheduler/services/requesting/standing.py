"""What somebody has now: limits in force, what is held of them, and what was used lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, Sum

from accounts.models import Project, Team
from scheduler.models import Device, Quota, UsageEntry
from scheduler.services.sharing.effective import Effective, effective_of

USED_OVER = timedelta(days=90)


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


def standing_of(owner: Team | Project, *, now: datetime) -> Standing:
    """Of a project also what its team has; a constant number of statements."""
    team_id = owner.team_id if isinstance(owner, Project) else owner.pk
    mine = Q(account__team=team_id)
    used = UsageEntry.objects.filter(period_start__gte=now - USED_OVER)
    if isinstance(owner, Project):
        mine |= Q(account__project=owner)
        used = used.filter(project=owner)
    else:
        used = used.filter(project__team=owner)
    quotas = list(Quota.objects.filter(mine).select_related("account", "pool"))
    limits = effective_of(quotas, now=now)
    rows = [Row(one, limits[one.pk], one.account.team_id is not None) for one in quotas]
    return Standing(rows, used.aggregate(total=Sum("gpu_seconds"))["total"] or 0)


def gpu_models_known() -> list[str]:
    """Models of GPUs that are or were here, by name; they are no secret."""
    return list(Device.objects.order_by("model").values_list("model", flat=True).distinct())
