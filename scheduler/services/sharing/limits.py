"""Setting what accounts may hold: quotas, caps and weights. Settings without effect are refused.

Lowering a limit stops nobody: it counts for what starts from then on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import Project, Team, User
from accounts.permissions import managed_for
from accounts.services.audit import pictured, record
from scheduler import events
from scheduler.models import Account, Pool, Quota
from scheduler.selectors.sharing.limits import quota_stamp
from scheduler.selectors.sharing.promised.capacity import guarantee_shortage
from scheduler.services.errors import Conflict, Invalid, NotFound
from scheduler.services.rows.locking import lock_ends, lock_starts
from scheduler.services.sharing.guard import counts_now
from scheduler.services.sharing.keeping.nesting import check_tree
from scheduler.services.sharing.policies import policy_in_force
from scheduler.services.sharing.rights import (
    about,
    about_quota,
    require_operator,
    require_quota_setter,
)
from scheduler.services.sharing.spans import end_quota, follow_quota
from scheduler.services.sharing.tree import account_of, below, parent_of
from scheduler.spec.schema import MAX_TIME_LIMIT_S

MOST_GPUS = 1_000_000
MOST_HOURS = MAX_TIME_LIMIT_S // 3600
CAPS = ("max_gpus_per_job", "max_running", "max_pending", "max_sessions")


@transaction.atomic
def set_quota(
    *,
    actor: User,
    owner: Team | Project | None,
    pool: Pool | None = None,
    gpu_model: str = "",
    guaranteed: int = 0,
    borrow_limit: int | None = None,
    lend_limit: int | None = None,
    maximum: int | None = None,
    max_hours: int | None = None,
    seen: str | None = None,
    now: datetime | None = None,
) -> Quota:
    """What a team, a project or (None) the organisation may hold; replaces the row it has.

    Waits for starts and ends under way, so that `held` begins with what is held. `seen`: the stamp
    of the row that was looked at, empty for none. `max_hours`: of the longest job, whatever GPUs it
    wants. Raises Invalid, Conflict if it has changed since.
    """
    is_bound, now = require_quota_setter(actor, owner), now or timezone.now()
    lock_starts()
    figures = {
        "guaranteed": guaranteed,
        "borrow_limit": borrow_limit,
        "lend_limit": lend_limit,
        "maximum": maximum,
        "max_hours": max_hours,
    }
    _check_figures(figures, gpu_model)
    account = account_of(owner)
    scope: dict[str, Any] = {"pool": pool, "gpu_model": gpu_model.strip()}
    found = Quota.objects.filter(account=account, **scope).first()
    _check_seen(found, seen)
    check_tree(account, scope, guaranteed, maximum, is_bound=is_bound, now=now)
    _check_capacity(found or Quota(account=account, **scope), guaranteed, now)
    before = Quota.objects.filter(account=account, **scope).values(*figures).first()
    quota = _counted(account, scope, figures, is_new=found is None)
    follow_quota(quota, now=now)
    giver = managed_for(actor, owner) if is_bound and owner else None
    after = {**figures, "pool": pool and pool.name, "gpu_model": quota.gpu_model}
    about_it = about_quota(quota)
    record(actor, "quota.set", about_it, before=before, after=after, on_behalf_of=giver)
    events.wake_scheduler_on_commit()
    return quota


def _check_seen(found: Quota | None, seen: str | None) -> None:
    if seen is not None and seen != quota_stamp(found):
        what = "Somebody changed this quota meanwhile" if seen else "This quota is set already"
        raise Conflict(
            f"{what}. Look at it as it is now, then decide again.",
            code="stale_version",
            facts={"seen": quota_stamp(found)},
        )


def _counted(
    account: Account, scope: Mapping[str, Any], figures: Mapping[str, Any], *, is_new: bool
) -> Quota:
    """The row with these figures, and what is held now; after `lock_starts`."""
    if is_new:
        # An end that finds no row to lower must be seen by the count; one that does waits for it.
        lock_ends(below(account, "job__project"))
    quota, _ = Quota.objects.update_or_create(account=account, **scope, defaults=figures)
    Quota.objects.filter(pk=quota.pk).update(**counts_now(quota))
    quota.refresh_from_db()
    return quota


@transaction.atomic
def remove_quota(*, actor: User, quota_id: int, now: datetime | None = None) -> None:
    """The account has no limit of this kind any more, and no grants on it."""
    require_operator(actor)
    quota = Quota.objects.select_related("account", "pool").filter(pk=quota_id).first()
    if quota is None:
        raise NotFound("There is no such quota.")
    end_quota(quota_id, now=now or timezone.now())
    figures = ("guaranteed", "borrow_limit", "lend_limit", "maximum", "max_hours", "gpu_model")
    before = pictured(quota, *figures) | {"pool": quota.pool and quota.pool.name}
    record(actor, "quota.remove", about_quota(quota), before=before)
    quota.delete()
    events.wake_scheduler_on_commit()


def _check_figures(figures: Mapping[str, int | None], gpu_model: str) -> None:
    """Refuse figures that make no sense, and those that would change nothing."""
    _check_hours(figures["max_hours"], gpu_model)
    for field, value in figures.items():
        if field != "max_hours" and value is not None and not 0 <= value <= MOST_GPUS:
            raise Invalid(f"Give a number of GPUs from 0 to {MOST_GPUS}.", field=field)
    own, borrow = figures["guaranteed"] or 0, figures["borrow_limit"]
    lend, most = figures["lend_limit"], figures["maximum"]
    if not own and borrow is None and most is None and figures["max_hours"] is None:
        raise Invalid(
            "This would change nothing: give a guarantee, a borrow limit, a maximum or a longest "
            "time.",
            field="guaranteed",
        )
    if most is not None and most < own:
        raise Invalid(
            f"The maximum {most} is below the guarantee {own}, which could never be used up.",
            field="maximum",
        )
    if lend is not None and lend >= own:
        raise Invalid(
            f"A lend limit of {lend} has no effect: only the {own} guaranteed GPUs can be lent. "
            "Leave it out, or give less than that.",
            field="lend_limit",
        )
    if borrow is not None and most is not None and own + borrow > most:
        raise Invalid(
            f"A borrow limit of {borrow} has no effect: the maximum {most} is reached first. "
            f"Leave it out, or give {most - own} or less.",
            field="borrow_limit",
        )


def _check_hours(max_hours: int | None, gpu_model: str) -> None:
    """Raises Invalid for no whole hours that a job could be allowed, and beside a GPU model."""
    if max_hours is None:
        return
    if not 1 <= max_hours <= MOST_HOURS:
        raise Invalid(f"Give whole hours from 1 to {MOST_HOURS}.", field="max_hours")
    if gpu_model.strip():
        raise Invalid(
            "The longest time holds for all GPU models. Set it on a quota without a model.",
            field="max_hours",
        )


def _check_capacity(quota: Quota, guaranteed: int, now: datetime) -> None:
    found = guarantee_shortage(quota, guaranteed, now=now)
    if found is None:
        return
    own = f"the {found.granted} of its grants, " if found.granted else ""
    raise Invalid(
        f"With {own}{found.words}. Guarantee at most {found.most}, or ask for it as a request, "
        "which somebody else decides.",
        field="guaranteed",
        facts=found.plain(),
    )


@transaction.atomic
def set_caps(*, actor: User, owner: Team | Project | None, **caps: int | None) -> Account:
    """Caps on GPUs of one job, jobs running, jobs waiting, open sessions; None lifts one. Raises
    Invalid for one without effect.
    """
    require_operator(actor)
    account = account_of(owner)
    for field, value in caps.items():
        if field not in CAPS:
            raise KeyError(field)
        if value is not None and not 0 <= value <= MOST_GPUS:
            raise Invalid(f"Give a whole number from 0 to {MOST_GPUS}.", field=field)
        parent = parent_of(account)
        while value is not None and parent is not None:
            above = getattr(parent, field)
            if above is not None and value >= above:
                raise Invalid(
                    f"{value} has no effect: the account above allows {above}. Caps may only "
                    "become tighter further down.",
                    field=field,
                )
            parent = parent_of(parent)
    before = pictured(account, *caps)
    Account.objects.filter(pk=account.pk).update(**caps)
    account.refresh_from_db()
    record(actor, "quota.set_caps", about(account), before=before, after=caps)
    events.wake_scheduler_on_commit()
    return account


@transaction.atomic
def set_weight(*, actor: User, owner: Team | Project, weight: float) -> Account:
    """Its share beside its siblings under the policy `fair`; 1 is what is usual. Raises Invalid."""
    require_operator(actor)
    if not (math.isfinite(weight) and 0 < weight <= MOST_GPUS):
        raise Invalid("Give a weight above zero, such as 2 for twice the share.", field="weight")
    if isinstance(owner, Project):
        raise Invalid(
            "A weight of a project has no effect: teams share, and people within a team.",
            field="weight",
        )
    policy = policy_in_force()
    if weight != 1 and policy.memory_s is None:
        raise Invalid(
            f"A weight has no effect under {policy.order}. Set the policy fair first.",
            field="weight",
        )
    account = account_of(owner)
    before = {"weight": account.weight}
    Account.objects.filter(pk=account.pk).update(weight=weight)
    account.refresh_from_db()
    record(actor, "quota.set_weight", about(account), before=before, after={"weight": weight})
    events.wake_scheduler_on_commit()
    return account
