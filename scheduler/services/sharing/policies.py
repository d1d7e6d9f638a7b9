"""The rule that says who is next. What would have no effect is refused by field and reason."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

from django.db import transaction

from accounts.models import User
from accounts.services.audit import Subject, pictured, record
from scheduler import events
from scheduler.conf import load_conf
from scheduler.engine.policy import Order, PlacementRule, Policy
from scheduler.models import Headroom, SchedulingRule
from scheduler.services.errors import Invalid
from scheduler.services.sharing.rights import require_operator

# What an operator may choose; `fgd` is there to compare with.
PLACEMENTS = (PlacementRule.TIGHT, PlacementRule.PACK)
LONGEST_S = timedelta(days=3650).total_seconds()


def policy_in_force() -> Policy:
    """The newest rule as the engine takes it; without one, what the settings say. One query."""
    usual = load_conf().policy
    rule = SchedulingRule.objects.first()
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


def policy_source() -> str:
    """Where the policy in force comes from: the newest rule, else the settings; in words."""
    rule = SchedulingRule.objects.first()
    if rule is None:
        return "settings of the server"
    return f"rule {rule.pk} of {rule.created_at:%Y-%m-%d %H:%M} UTC"


def order_in_force() -> Order:
    """Who is next within a tier now."""
    return policy_in_force().order


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
    if name not in set(Order):
        raise Invalid(f"Choose one of {', '.join(Order)}.", field="name")
    if placement and placement not in PLACEMENTS:
        raise Invalid(f"Choose one of {', '.join(PLACEMENTS)}.", field="placement")
    order = Order(name)
    _check_half_life(order, half_life_s)
    _check_patience(order, head_patience_s, bool(preempts))
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


def _check_half_life(order: Order, half_life_s: float | None) -> None:
    if half_life_s is None:
        return
    if not (math.isfinite(half_life_s) and 0 < half_life_s <= LONGEST_S):
        raise Invalid(
            "Give seconds above zero, at most ten years. With a half-life of nothing past use "
            "would never count; to forget it, choose another policy.",
            field="half_life_s",
        )
    if order is not Order.FAIR:
        raise Invalid(
            f"A half-life has no effect under {order}: only fair looks at past use. Leave it out.",
            field="half_life_s",
        )


def _check_headroom(order: Order, preempts: bool | None) -> None:
    """What is lent of headroom comes back only if production may stop who borrows it."""
    stops = load_conf().preempts_under(order) if preempts is None else preempts
    if Policy(order=order, preempts=stops).stops_lower_tiers or not Headroom.objects.exists():
        return
    raise Invalid(
        "A pool has headroom for production, which takes a policy that preempts, under fair or "
        "fifo. Set its headroom to 0 first.",
        field="preempts",
    )


def _check_patience(order: Order, head_patience_s: float | None, preempts: bool) -> None:
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


__all__ = ["PLACEMENTS", "order_in_force", "policy_in_force", "policy_source", "set_policy"]
