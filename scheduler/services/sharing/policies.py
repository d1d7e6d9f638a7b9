"""The rules that say who is next, in the cluster and in pools that have their own. What would
have no effect is refused by field and reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import Subject, pictured, record
from scheduler import events
from scheduler.conf import load_conf
from scheduler.engine.policy import Order, PlacementRule, Policy, PoolPolicy
from scheduler.models import Headroom, Pool, PoolRule, SchedulingRule
from scheduler.selectors.sharing.limits import NEWEST_RULE, POOL_RULES
from scheduler.services.errors import Invalid
from scheduler.services.sharing.rights import require_operator
from scheduler.states import moment_words

# What an operator may choose; `fgd` is there to compare with.
PLACEMENTS = (PlacementRule.TIGHT, PlacementRule.PACK)
LONGEST_S = timedelta(days=3650).total_seconds()
_OF_POOL = ("name", "head_patience_s", "placement", "preempts")


def policy_in_force() -> Policy:
    """The newest rule as the engine takes it, and those of pools. Two queries."""
    rule = next(iter(NEWEST_RULE.read()), None)
    policy = _of_cluster(rule)
    rules = POOL_RULES.read()
    return replace(policy, pools=tuple(_of_pool(policy, rule, one) for one in rules))


def policy_of_pool(pool: Pool) -> Policy:
    """As it is for this pool now. Two queries."""
    return policy_in_force().of(pool.name)


def policy_under(pool: Pool, own: PoolRule | None) -> Policy:
    """The same where the pool's rule is known, None for none. One query."""
    cluster = SchedulingRule.objects.first()
    policy = _of_cluster(cluster)
    if own is not None:
        own.pool = pool
        policy = replace(policy, pools=(_of_pool(policy, cluster, own),))
    return policy.of(pool.name)


def compare_policies(pool: Pool, wanted: Mapping[str, Any]) -> tuple[Policy, Policy]:
    """As it is for this pool, and as it would be under a rule of its own; two queries.

    Nothing is checked or kept.
    """
    cluster = SchedulingRule.objects.first()
    policy = _of_cluster(cluster)
    own = PoolRule.objects.filter(pool=pool, ended_at=None).select_related("pool").first()

    def under(rule: PoolRule) -> Policy:
        return replace(policy, pools=(_of_pool(policy, cluster, rule),)).of(pool.name)

    return under(own) if own else policy, under(PoolRule(pool=pool, **wanted))


def _of_cluster(rule: SchedulingRule | None) -> Policy:
    """What the settings say, where the rule says nothing else."""
    usual = load_conf().policy
    if rule is None:
        return usual
    return replace(
        usual,
        order=Order(rule.name),
        head_patience_s=(
            usual.head_patience_s if rule.head_patience_s is None else rule.head_patience_s
        ),
        placement=PlacementRule(rule.placement) if rule.placement else usual.placement,
        preempts=(
            load_conf().preempts_under(Order(rule.name)) if rule.preempts is None else rule.preempts
        ),
        half_life_s=usual.half_life_s if rule.half_life_s is None else rule.half_life_s,
    )


def _of_pool(policy: Policy, cluster: SchedulingRule | None, rule: PoolRule) -> PoolPolicy:
    """The cluster's dials where the rule of a pool leaves them open."""
    order, preempts = Order(rule.name), rule.preempts
    if preempts is None:
        # Who switched stopping off for the whole cluster did so for this pool as well.
        is_off = cluster is not None and cluster.preempts is False
        preempts = load_conf().preempts_under(order) and not is_off
    patience_s = rule.head_patience_s
    return PoolPolicy(
        pool=rule.pool.name,
        order=order,
        head_patience_s=policy.head_patience_s if patience_s is None else patience_s,
        placement=PlacementRule(rule.placement) if rule.placement else policy.placement,
        preempts=preempts,
    )


def policy_source() -> str:
    """Where the policy in force comes from: the newest rule, else the settings; in words."""
    rule = SchedulingRule.objects.first()
    if rule is None:
        return "settings of the server"
    return f"rule {rule.pk} of {moment_words(rule.created_at)}"


@transaction.atomic
def set_policy(
    *,
    actor: User,
    name: str,
    half_life_s: float | None = None,
    head_patience_s: float | None = None,
    placement: str = "",
    preempts: bool | None = None,
) -> SchedulingRule:
    """A new rule, in force at once; earlier ones stay as history. Raises Invalid, Forbidden.

    It goes before the settings of the server, which fill what it leaves open.
    """
    require_operator(actor)
    order = _order(name, placement)
    _check_half_life(order, half_life_s)
    _check_patience(order, head_patience_s, preempts=bool(preempts))
    _check_headroom(order, preempts)
    fields = ("name", "half_life_s", "head_patience_s", "placement", "preempts")
    last = SchedulingRule.objects.first()
    rule = SchedulingRule.objects.create(
        name=name,
        half_life_s=half_life_s,
        head_patience_s=head_patience_s,
        placement=placement,
        preempts=preempts,
        created_by=actor,
    )
    record(
        actor,
        "policy.set",
        Subject("schedulingrule", str(rule.pk), f"scheduling by {name}"),
        before=pictured(last, *fields) if last else None,
        after=pictured(rule, *fields),
    )
    events.wake_scheduler_on_commit()
    return rule


@transaction.atomic
def set_pool_policy(
    *,
    actor: User,
    pool: Pool,
    name: str,
    head_patience_s: float | None = None,
    placement: str = "",
    preempts: bool | None = None,
    now: datetime | None = None,
) -> PoolRule | None:
    """A rule for one pool, in force at once in place of the cluster's, which fills what it leaves
    open; None where the cluster is scheduled just so: the rule it had ends. Past use and its
    half-life are the cluster's: a share is one of all pools together. Raises Invalid, Forbidden.
    """
    require_operator(actor)
    order, pool = _order(name, placement), Pool.objects.select_for_update().get(pk=pool.pk)
    _check_patience(order, head_patience_s, preempts=False)
    cluster = SchedulingRule.objects.first()
    rule = PoolRule(
        pool=pool,
        name=name,
        head_patience_s=head_patience_s,
        placement=placement,
        preempts=preempts,
        created_by=actor,
    )
    policy = _of_cluster(cluster)
    found = replace(policy, pools=(_of_pool(policy, cluster, rule),)).of(pool.name)
    _check_patience(order, head_patience_s, preempts=found.preempts)
    if found == policy:
        if PoolRule.objects.filter(pool=pool, ended_at=None).exists():
            clear_pool_policy(actor=actor, pool=pool, now=now)
            return None
        raise Invalid(
            f"The cluster is scheduled like this already, and pool {pool.name} with it.",
            field="name",
        )
    if not found.stops_lower_tiers:
        _refuse_headroom(Headroom.objects.filter(pool=pool).exists())
    last = _end_rule(pool, now or timezone.now())
    rule.save()
    record(
        actor,
        "pool.policy",
        pool,
        before=pictured(last, *_OF_POOL) if last else None,
        after=pictured(rule, *_OF_POOL),
    )
    events.wake_scheduler_on_commit()
    return rule


@transaction.atomic
def clear_pool_policy(*, actor: User, pool: Pool, now: datetime | None = None) -> None:
    """Schedule the pool by the cluster's rule again. Raises Invalid, Forbidden."""
    require_operator(actor)
    pool = Pool.objects.select_for_update().get(pk=pool.pk)
    last = _end_rule(pool, now or timezone.now())
    if last is None:
        raise Invalid(f"Pool {pool.name} follows the cluster already.", field="name")
    if not policy_of_pool(pool).stops_lower_tiers:
        _refuse_headroom(Headroom.objects.filter(pool=pool).exists())
    record(actor, "pool.policy", pool, before=pictured(last, *_OF_POOL), after=None)
    events.wake_scheduler_on_commit()


def _end_rule(pool: Pool, now: datetime) -> PoolRule | None:
    """The rule that was in force, which ends now; None if there was none."""
    last = PoolRule.objects.filter(pool=pool, ended_at=None).first()
    if last is not None:
        last.ended_at = now
        last.save(update_fields=["ended_at"])
    return last


def _order(name: str, placement: str) -> Order:
    if name not in set(Order):
        raise Invalid(f"Choose one of {', '.join(Order)}.", field="name")
    if placement and placement not in PLACEMENTS:
        raise Invalid(f"Choose one of {', '.join(PLACEMENTS)}.", field="placement")
    return Order(name)


def _check_half_life(order: Order, half_life_s: float | None) -> None:
    if half_life_s is None:
        return
    if not (math.isfinite(half_life_s) and 0 < half_life_s <= LONGEST_S):
        raise Invalid(
            "Give seconds above zero, at most ten years. With a half-life of nothing past use "
            "would never count; to forget it, choose another policy.",
            field="half_life_s",
        )
    fair_pools = PoolRule.objects.filter(ended_at=None, name=Order.FAIR)
    if order is not Order.FAIR and not fair_pools.exists():
        raise Invalid(
            f"A half-life has no effect under {order}: only fair looks at past use. Leave it out.",
            field="half_life_s",
        )


def _check_headroom(order: Order, preempts: bool | None) -> None:
    """What is lent of headroom comes back only if production may stop who borrows it."""
    stops = load_conf().preempts_under(order) if preempts is None else preempts
    if Policy(order=order, preempts=stops).stops_lower_tiers:
        return
    apart = PoolRule.objects.filter(ended_at=None).values("pool")
    _refuse_headroom(Headroom.objects.exclude(pool__in=apart).exists())


def _refuse_headroom(exists: bool) -> None:
    if not exists:
        return
    raise Invalid(
        "A pool has headroom for production, which takes a policy that preempts, under fair or "
        "fifo. Set its headroom to 0 first.",
        field="preempts",
    )


def _check_patience(order: Order, head_patience_s: float | None, *, preempts: bool) -> None:
    if head_patience_s is None:
        return
    if not (math.isfinite(head_patience_s) and 0 <= head_patience_s <= LONGEST_S):
        raise Invalid("Give seconds from zero up to ten years.", field="head_patience_s")
    if Policy(order=order, preempts=preempts).rearranges:
        raise Invalid(
            f"Patience has no effect when {order} preempts: who runs is chosen anew in every "
            "cycle and no nodes are kept. Leave it out.",
            field="head_patience_s",
        )


__all__ = [
    "PLACEMENTS",
    "clear_pool_policy",
    "policy_in_force",
    "policy_of_pool",
    "policy_source",
    "policy_under",
    "set_policy",
    "set_pool_policy",
]
