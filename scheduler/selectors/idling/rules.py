"""The rule of a project or pool for GPUs that do little, for a viewer."""

from __future__ import annotations

from dataclasses import dataclass

from accounts.models import Project, User
from accounts.permissions import can
from scheduler.models import IdleRule, Pool


@dataclass(frozen=True, slots=True)
class RuleView:
    """`rule` is None where there never was one; `also` are rules that are on and hold beside it:
    for a project those of pools, for a pool nobody's."""

    rule: IdleRule | None
    also: list[IdleRule]
    may_set: bool

    @property
    def is_on(self) -> bool:
        """Whether one is in force."""
        return self.rule is not None and self.rule.is_on


def idle_rule_of(viewer: User, owner: Project | Pool) -> RuleView:
    """For who sees the project or pool, which the caller has looked up for the viewer; one
    statement."""
    rules = IdleRule.objects.select_related("set_by", "project__team", "pool")
    if isinstance(owner, Pool):
        return RuleView(rules.filter(pool=owner).first(), [], can(viewer, "operate", None))
    may_set = can(viewer, "manage_project", owner)
    found = list(rules.filter(project=owner) | rules.filter(pool__isnull=False, is_on=True))
    own = next((one for one in found if one.project_id is not None), None)
    return RuleView(own, [one for one in found if one.pool_id is not None], may_set)
