"""A pool: its GPUs, its rule, who holds them and who waits; operators change the rule here."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.permissions import can
from portal.forms.cluster.policies import PolicyForm
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, refused_form, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.templatetags.measures import duration
from scheduler.engine.policy import ORDER_WORDS, PLACEMENT_WORDS, Order, Policy
from scheduler.models import PoolRule
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.machines.pools import pool_view
from scheduler.selectors.sharing import pool_rules_so_far
from scheduler.services.sharing.policies import (
    clear_pool_policy,
    compare_policies,
    policy_under,
    set_pool_policy,
)

PARAMETERS = ("name", "preempts", "placement", "head_patience_s", "rules", "part")


@page("GET")
def pool_detail(request: HttpRequest, name: str) -> HttpResponseBase:
    """With `?name=` and the other fields of a rule: what it would change, before it is saved."""
    viewer = viewer_of(request)
    pool = get_visible_pool(viewer, name)
    rules = pool_rules_so_far(viewer, pool)
    may_operate = can(viewer, "operate", None)
    own = rules[0] if rules and rules[0].ended_at is None else None
    policy = policy_under(pool, own)
    is_asked = may_operate and "name" in request.GET
    form = PolicyForm(request.GET if is_asked else None, initial=_initial(policy, own))
    changes, wanted = [], policy
    if is_asked and form.is_valid():
        before, wanted = compare_policies(pool, form.wanted())
        changes = policy_changes(before, wanted)
    context = {
        "pool": pool,
        "view": pool_view(viewer, pool),
        "policy": policy,
        "own": own,
        "rules": leaf_of(request, rules, "rules", size=8),
        "form": form,
        "changes": changes,
        "wanted": wanted,
        "is_asked": is_asked and form.is_valid(),
        "may_operate": may_operate,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": timezone.now(),
    }
    part = "#live" if request.GET.get("part") == "live" else ""
    return render(request, f"cluster/pool.html{part}", context)


@page("POST")
def pool_policy(request: HttpRequest, name: str) -> HttpResponseBase:
    """Put a rule of its own in force, or with `follow` the cluster's again."""
    viewer = viewer_of(request)
    pool = get_visible_pool(viewer, name)

    def act() -> str:
        if "follow" in request.POST:
            clear_pool_policy(actor=viewer, pool=pool)
            return f"Pool {pool.name} follows the cluster again."
        form = PolicyForm(request.POST)
        if not form.is_valid():
            raise refused_form(form)
        rule = set_pool_policy(actor=viewer, pool=pool, **form.wanted())
        if rule is None:
            return f"Pool {pool.name} is scheduled as the cluster is, and follows it again."
        said = ORDER_WORDS[Order(rule.name)]
        return f"Pool {pool.name} is scheduled {said} from the next cycle on."

    return said_and_back(request, act, "pools:detail", name)


def _initial(policy: Policy, own: PoolRule | None) -> dict[str, object]:
    if own is None:
        return {"name": policy.order}
    preempts = {True: "yes", False: "no", None: ""}[own.preempts]
    return {
        "name": own.name,
        "preempts": preempts,
        "placement": own.placement,
        "head_patience_s": own.head_patience_s,
    }


def policy_changes(before: Policy, after: Policy) -> list[tuple[str, str, str]]:
    """What differs, in words: field, before, after."""
    rows = [
        (words, told(before), told(after))
        for words, told in (
            ("who is next", lambda one: ORDER_WORDS[one.order]),
            ("may stop others", lambda one: "yes" if one.preempts else "no"),
            ("where jobs go", lambda one: PLACEMENT_WORDS[one.placement]),
            ("patience", lambda one: duration(one.head_patience_s)),
        )
    ]
    return [row for row in rows if row[1] != row[2]]
