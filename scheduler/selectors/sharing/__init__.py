"""Quotas, budgets and rules, for a viewer."""

from scheduler.selectors.sharing.ceilings import usual_ceiling, visible_caps, visible_ceilings
from scheduler.selectors.sharing.limits import (
    get_visible_budget,
    get_visible_owner,
    get_visible_quota,
    grants_of,
    owner_path,
    pool_rules_so_far,
    rules_so_far,
    visible_budgets,
    visible_quotas,
)

__all__ = [
    "get_visible_budget",
    "get_visible_owner",
    "get_visible_quota",
    "grants_of",
    "owner_path",
    "pool_rules_so_far",
    "rules_so_far",
    "usual_ceiling",
    "visible_budgets",
    "visible_caps",
    "visible_ceilings",
    "visible_quotas",
]
