"""Guarantees are kept within what is there: capacity in service, less the headroom.

What lies beyond takes a second person: somebody asks for it as a request, and whoever decides sees
by how much it would be oversubscribed. Nodes that leave later lower no guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from scheduler.models import Device, Grant, Headroom, Pool, Quota
from scheduler.states import NodeState

Scope = tuple[int | None, str]


def capacity_for_guarantees(pool_id: int | None, gpu_model: str) -> tuple[int, int]:
    """GPUs in service of a pool (None: all) and model (empty: any), and the headroom of them."""
    devices = Device.objects.filter(is_present=True, in_service=True)
    devices = devices.exclude(node__state=NodeState.RETIRED)
    kept = Headroom.objects.all()
    if pool_id is not None:
        devices, kept = devices.filter(node__pool=pool_id), kept.filter(pool=pool_id)
    if gpu_model:
        devices, kept = devices.filter(model=gpu_model), kept.filter(gpu_model=gpu_model)
    # Parts of a card count as thousandths of it; three thirds are a whole one again.
    total = ((devices.aggregate(milli=Sum("milli"))["milli"] or 0) + 500) // 1000
    return total, min(total, kept.aggregate(gpus=Sum("gpus"))["gpus"] or 0)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Fewer GPUs than would be guaranteed; `others`: what others are guaranteed of them."""

    in_service: int
    headroom: int
    others: int

    @property
    def most(self) -> int:
        """What may be guaranteed."""
        return max(0, self.in_service - self.headroom - self.others)


def shortage(
    quota: Quota,
    pool: Pool | None,
    gpu_model: str,
    guaranteed: int,
    granted: Mapping[int, int] | None = None,
) -> Shortage | None:
    """Whether a higher guarantee of a top-level account goes beyond what is there.

    Looked at for the quota's own pool and model and for everything they are part of. Where nothing
    is in service yet there is nothing to compare with. `granted`: what grants add to each quota.
    """
    if guaranteed <= quota.guaranteed or quota.account.depth > 1:
        return None
    at = pool.pk if pool else None
    for scope in dict.fromkeys([(at, gpu_model), (at, ""), (None, gpu_model), (None, "")]):
        others = _claimed_by_others(quota, scope, granted or {})
        found = Shortage(*capacity_for_guarantees(*scope), others)
        if found.in_service and guaranteed > found.most:
            return found
    return None


def grant_shortage(
    quota: Quota, gpus: int, *, valid_from: datetime, valid_until: datetime
) -> tuple[Shortage, int] | None:
    """The first moment at which so many more do not fit, beside every grant that counts then.

    With it what this quota has then by itself. Only a grant's begin can make it tighter, so these
    moments are looked at, and the first one.
    """
    rows = list(
        Grant.objects.filter(
            guaranteed__gt=0,
            revoked_at=None,
            valid_from__lt=valid_until,
            valid_until__gt=valid_from,
            quota__account__depth=1,
        ).values_list("quota_id", "guaranteed", "valid_from", "valid_until")
    )
    begins = {begin for _, _, begin, _ in rows if begin > valid_from}
    for moment in sorted({valid_from} | begins):
        granted: dict[int, int] = {}
        for pk, more, begin, end in rows:
            if begin <= moment < end:
                granted[pk] = granted.get(pk, 0) + more
        own = quota.guaranteed + granted.get(quota.pk, 0)
        found = shortage(quota, quota.pool, quota.gpu_model, own + gpus, granted)
        if found is not None:
            return found, own
    return None


def _claimed_by_others(quota: Quota, scope: Scope, granted: Mapping[int, int]) -> int:
    """What other top-level accounts are guaranteed within a scope, with what is `granted`.

    An account's guarantee for the scope and its finer ones are two views of the same GPUs, so the
    larger counts.
    """
    pool_id, gpu_model = scope
    rows = Quota.objects.filter(account__depth=1).exclude(account=quota.account)
    broad: dict[int, int] = {}
    fine: dict[int, int] = {}
    for pk, account, pool, model, base in rows.values_list(
        "pk", "account_id", "pool_id", "gpu_model", "guaranteed"
    ):
        gpus = base + granted.get(pk, 0)
        if (pool, model) == scope:
            broad[account] = gpus
        elif pool_id in (None, pool) and gpu_model in ("", model):
            fine[account] = fine.get(account, 0) + gpus
    return sum(max(broad.get(one, 0), fine.get(one, 0)) for one in {*broad, *fine})
