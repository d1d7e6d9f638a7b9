"""The last word on a start: counters change in its transaction, or it does not happen.

The engine has looked at the same limits, on a picture that may be a moment old. Here every count
is raised by an UPDATE that holds only while the limit does, from the root of the tree to the
leaves, so that two transactions can neither both take the last GPU nor wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import Count, F, QuerySet, Sum
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce

from accounts.statements import AskedOnce, BuiltOnce, ChangedOnce
from scheduler.engine.sharing.cohorts import whole_gpus
from scheduler.models import (
    Account,
    Allocation,
    Attempt,
    Device,
    Job,
    Placement,
    Quota,
)
from scheduler.services.rows.locking import lock_devices
from scheduler.services.sharing.committing import BudgetReached, WorstCase, commit_budgets
from scheduler.services.sharing.effective import Effective, effective_of
from scheduler.services.sharing.tree import (
    ROOT_KEY,
    below,
    lines_of,
    name_of,
    owners_over,
    to_lock,
)
from scheduler.spec.values import WHOLE_MILLI
from scheduler.states import LIVE_ATTEMPT_STATES, WaitReason

# By project id the keys of the accounts on its way to the root.
Lines = Mapping[int, frozenset[str]]
# Of a device its model, and what it is of a card in milli-GPU.
Kind = tuple[str, int]


# Whose a placement's devices are.
_HOLDER = ("pool", "project", "project__team")


class LimitReached(RuntimeError):
    """A start would take an account over a limit; nothing of its transaction may stay.

    `reason` and `facts` tell its job why it waits.
    """

    def __init__(self, words: str, reason: WaitReason, facts: Mapping[str, object]) -> None:
        super().__init__(words)
        self.reason = reason
        self.facts = facts


# By job, which limit its start would have gone over.
Refusals: TypeAlias = dict[int, LimitReached]


def charge_starts(
    attempts: Sequence[Attempt],
    jobs: Mapping[int, Job],
    devices: Mapping[int, Sequence[int]],
    *,
    now: datetime,
) -> None:
    """Count new attempts in the same transaction; raises LimitReached.

    `jobs` with their projects, `devices` (ids) by job. Costs one statement where nobody has rules.
    """
    projects = {(job.project_id, job.project.team_id) for job in jobs.values()}
    accounts = _OVER.read(sorted({project_id for project_id, _ in projects}))
    if not accounts:
        return
    # A call of a node that ends other attempts there has its devices before it lowers limits.
    lock_devices([device for ids in devices.values() for device in ids])
    lines = lines_of(projects)
    for account in accounts:
        _check_caps(account, [jobs[one.job_id] for one in attempts], devices, lines)
    _charge_quotas(accounts, jobs, devices, lines, now)
    _commit_budgets(accounts, attempts, jobs, devices, lines, now)


def _over(projects: Sequence[int]) -> QuerySet[Account]:
    return to_lock(owners_over(projects))


_OVER = BuiltOnce(_over)


def _check_caps(
    account: Account, jobs: Sequence[Job], devices: Mapping[int, Sequence[int]], lines: Lines
) -> None:
    if account.max_gpus_per_job is None and account.max_running is None:
        return
    mine = [job for job in jobs if account.key in lines[job.project_id]]
    most = account.max_gpus_per_job
    if most is not None and mine:
        # What it got: an elastic job may start with fewer nodes than it could use.
        kind_of = _kinds([pk for job in mine for pk in devices[job.pk]])
        milli = max(sum(kind_of[pk][1] for pk in devices[job.pk]) for job in mine)
        if milli > most * WHOLE_MILLI:
            raise _capped(account, "GPUs per job", most, used=0, more=whole_gpus(milli))
    if account.max_running is not None and mine:
        live = Attempt.objects.filter(
            below(account, "job__project"), state__in=LIVE_ATTEMPT_STATES
        ).count()
        if live > account.max_running:
            used = live - len(mine)
            raise _capped(account, "running jobs", account.max_running, used=used, more=1)


def _capped(
    account: Account, cap: str, limit: int | None, *, used: float, more: float
) -> LimitReached:
    """The refusal with the facts that the engine gives."""
    facts = {"account": name_of(account), "cap": cap, "limit": limit, "used": used, "gpus": more}
    words = f"{account}: {used:g} + {more:g} is more than {limit} {cap}"
    return LimitReached(words, WaitReason.QUOTA_HARD, facts)


def _charge_quotas(
    accounts: Sequence[Account],
    jobs: Mapping[int, Job],
    devices: Mapping[int, Sequence[int]],
    lines: Lines,
    now: datetime,
) -> None:
    quotas = list(Quota.objects.filter(account__in=accounts).order_by("account__depth", "pk"))
    if not quotas:
        return
    of = {account.pk: account for account in accounts}
    kind_of = _kinds([device for ids in devices.values() for device in ids])
    allowed = effective_of(quotas, now=now)
    for quota in quotas:
        taken = [
            kind_of[device][1]
            for job_id, ids in devices.items()
            if of[quota.account_id].key in lines[jobs[job_id].project_id]
            and quota.pool_id in (None, jobs[job_id].pool_id)
            for device in ids
            if kind_of[device][0] == (quota.gpu_model or kind_of[device][0])
        ]
        if taken:
            _raise_held(quota, taken, _ceiling(of[quota.account_id], allowed[quota.pk]))


def _kinds(devices: Sequence[int]) -> dict[int, Kind]:
    rows = Device.objects.filter(pk__in=devices).values_list("pk", "model", "milli")
    return {pk: (model, milli) for pk, model, milli in rows}


def _ceiling(account: Account, allowed: Effective) -> int | None:
    """The most it may hold; what a team borrows depends on its projects, as the engine knows."""
    ceilings = [allowed.maximum]
    if account.project_id is not None and allowed.borrow_limit is not None:
        ceilings.append(allowed.guaranteed + allowed.borrow_limit)
    return min((one for one in ceilings if one is not None), default=None)


def _raise_held(quota: Quota, taken: Sequence[int], most: int | None) -> None:
    """`taken`: the milli-GPU of each device."""
    count, milli = len(taken), sum(taken)
    row = Quota.objects.filter(pk=quota.pk)
    if most is not None:
        row = row.filter(held_milli__lte=most * WHOLE_MILLI - milli)
    if not row.update(held=F("held") + count, held_milli=F("held_milli") + milli):
        used = whole_gpus(quota.held_milli)
        raise _capped(quota.account, "GPUs", most, used=used, more=whole_gpus(milli))


def _commit_budgets(
    accounts: Sequence[Account],
    attempts: Sequence[Attempt],
    jobs: Mapping[int, Job],
    devices: Mapping[int, Sequence[int]],
    lines: Lines,
    now: datetime,
) -> None:
    """All GPUs for the whole time limit, of every budget on the way to the root."""
    cases = []
    for one in attempts:
        job = jobs[one.job_id]
        cases.append(WorstCase(one, job, lines[job.project_id], devices[job.pk]))
    try:
        commit_budgets(accounts, cases, now=now)
    except BudgetReached as reached:
        account = name_of(reached.budget.account)
        facts = {"account": account, "left": "not enough", "asks": f"more: {reached}"}
        raise LimitReached(str(reached), WaitReason.BUDGET_EXHAUSTED, facts) from None


def release_held(models: Mapping[int, Sequence[Kind]]) -> None:
    """Give back the devices of placements, by id the model and milli-GPU of each device.

    The caller has just closed their allocations. Each quota is lowered once, from the root down.
    """
    if not models or not _ANY_QUOTA.read():
        return
    rows = _HOLDERS.rows(list(models))
    projects = {project: team for _, _, project, team in rows}
    quotas = _QUOTAS.rows(list(projects))
    lines = lines_of(projects.items()) if quotas else {}
    for quota, key, pool, model in quotas:
        freed = [
            milli
            for pk, of_pool, project, _ in rows
            if key in lines[project] and pool in (None, of_pool)
            for kind, milli in models[pk]
            if model in ("", kind)
        ]
        if freed:
            _LOWERED.change([quota], len(freed), sum(freed))


def _any_quota() -> QuerySet[Quota, tuple[Any, ...]]:
    return Quota.objects.order_by().values_list("pk")[:1]


def _holders(placements: Sequence[int]) -> QuerySet[Placement, tuple[Any, ...]]:
    holders = Placement.objects.filter(pk__in=placements).order_by()
    return holders.values_list("pk", *(f"attempt__job__{name}" for name in _HOLDER))


def _quotas_over(projects: Sequence[int]) -> QuerySet[Quota, tuple[Any, ...]]:
    quotas = Quota.objects.filter(owners_over(projects, "account__"))
    quotas = quotas.order_by("account__depth", "pk")
    return quotas.values_list("pk", "account__key", "pool_id", "gpu_model")


def _lower(
    quotas: Sequence[int], count: int, milli: int
) -> tuple[QuerySet[Quota], dict[str, CombinedExpression]]:
    changes = {"held": F("held") - count, "held_milli": F("held_milli") - milli}
    return Quota.objects.filter(pk__in=quotas), changes


_ANY_QUOTA, _HOLDERS = AskedOnce(_any_quota), BuiltOnce(_holders)
_QUOTAS, _LOWERED = BuiltOnce(_quotas_over), ChangedOnce(_lower)


def held_now(quota: Quota) -> int:
    """What `held` should say: open allocations counted one by one."""
    return counts_now(quota)["held"]


def counts_now(quota: Quota) -> dict[str, int]:
    """What `held` and `held_milli` should say."""
    held = Allocation.objects.filter(
        below(quota.account, "placement__attempt__job__project"), released_at__isnull=True
    )
    if quota.pool_id is not None:
        held = held.filter(placement__attempt__job__pool_id=quota.pool_id)
    if quota.gpu_model:
        held = held.filter(device__model=quota.gpu_model)
    found = held.aggregate(held=Count("pk"), held_milli=Coalesce(Sum("device__milli"), 0))
    return {name: int(value) for name, value in found.items()}


__all__ = [
    "ROOT_KEY",
    "LimitReached",
    "Refusals",
    "charge_starts",
    "counts_now",
    "held_now",
    "release_held",
]
