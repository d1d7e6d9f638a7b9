"""Quotas, budgets and rules, for a viewer: one's own teams, everything for operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q, QuerySet

from accounts.errors import NotFound
from accounts.models import Project, Team, User
from accounts.permissions import can, projects_visible_to, teams_visible_to
from accounts.selectors import get_visible_project, get_visible_team
from accounts.statements import AskedOnce
from scheduler.models import Budget, Grant, Pool, PoolRule, Quota, SchedulingRule


def visible_quotas(viewer: User) -> Sequence[Quota]:
    """From the root of the tree to the leaves, with their grants."""
    return list(
        Quota.objects.filter(mine(viewer))
        .select_related("account__team", "account__project__team", "pool")
        .prefetch_related("grants")
    )


def visible_budgets(viewer: User) -> Sequence[Budget]:
    """Past ones and those to come included."""
    budgets = Budget.objects.filter(budgets_of(viewer))
    return list(budgets.select_related("account__team", "account__project__team"))


def _newest_rule() -> QuerySet[SchedulingRule]:
    return SchedulingRule.objects.all()[:1]


def _pool_rules() -> QuerySet[PoolRule]:
    in_force = PoolRule.objects.filter(ended_at=None)
    return in_force.select_related("pool").order_by("pool__name")


# What a policy is made of now, for the scheduler.
NEWEST_RULE, POOL_RULES = AskedOnce(_newest_rule), AskedOnce(_pool_rules)


def rules_so_far(viewer: User) -> QuerySet[SchedulingRule]:
    """The rule in force first, then those before; the rules of the queue are no secret."""
    return SchedulingRule.objects.select_related("created_by")


def pool_rules_so_far(viewer: User, pool: Pool) -> QuerySet[PoolRule]:
    """The pool's own rules, the newest first; in force is the one that has not ended, if any."""
    return PoolRule.objects.filter(pool=pool).select_related("created_by")


def get_visible_quota(viewer: User, pk: int) -> Quota:
    """Raises NotFound for a missing and for a foreign one alike."""
    found = Quota.objects.filter(mine(viewer), pk=pk).first()
    if found is None:
        raise NotFound("There is no such quota for you.")
    return found


def quota_stamp(quota: Quota | None) -> str:
    """A quota's figures as one word, to tell whether it is still as it was seen; empty for none."""
    if quota is None:
        return ""
    names = ("guaranteed", "borrow_limit", "lend_limit", "maximum", "max_hours")
    figures = [getattr(quota, name) for name in names]
    return ".".join("" if figure is None else str(figure) for figure in figures)


def get_visible_budget(viewer: User, pk: int) -> Budget:
    """Raises NotFound for a missing and for a foreign one alike."""
    found = Budget.objects.filter(budgets_of(viewer), pk=pk).select_related(
        "account__team", "account__project__team"
    )
    budget = found.first()
    if budget is None:
        raise NotFound("There is no such budget for you.")
    return budget


def get_visible_owner(viewer: User, path: str) -> Team | Project | None:
    """Who is meant by `team`, `team/project`, or nothing for the organisation. Raises NotFound."""
    if not path:
        return None
    if can(viewer, "read_settings", None):
        team, _, project = path.partition("/")
        found = (
            Project.objects.filter(team__slug=team, slug=project).first()
            if project
            else Team.objects.filter(slug=team).first()
        )
        if found is None:
            raise NotFound("There is no such team or project.")
        return found
    return get_visible_project(viewer, path) if "/" in path else get_visible_team(viewer, path)


def owner_path(row: Quota | Budget) -> str:
    """`team`, `team/project`, or nothing for the organisation."""
    account = row.account
    if account.project is not None:
        return account.project.path
    return account.team.slug if account.team is not None else ""


def names_of_accounts(keys: Iterable[str]) -> dict[str, str]:
    """Paths of teams and projects by the keys of their accounts; no statement for none, two at
    most. Only for keys that stand in what the viewer may see."""
    numbers: dict[str, set[int]] = {"team": set(), "project": set()}
    for key in keys:
        kind, _, number = key.partition(":")
        if kind in numbers:
            numbers[kind].add(int(number))
    found: dict[str, str] = {}
    if numbers["team"]:
        teams = Team.objects.filter(pk__in=numbers["team"]).order_by()
        found |= {f"team:{pk}": slug for pk, slug in teams.values_list("pk", "slug")}
    if numbers["project"]:
        projects = Project.objects.filter(pk__in=numbers["project"]).select_related("team")
        found |= {f"project:{project.pk}": project.path for project in projects}
    return found


def grants_of(quota: Quota) -> Sequence[Grant]:
    """All grants ever made on it, oldest first."""
    return list(quota.grants.all())


def mine(viewer: User) -> Q:
    """Rows of accounts that the viewer may see: of one's own teams, for some of all."""
    if can(viewer, "read_settings", None):
        return Q()
    teams = teams_visible_to(viewer)
    return Q(account__team__in=teams) | Q(account__project__team__in=teams)


def budgets_of(viewer: User) -> Q:
    """The same of budgets; those in money for who may see what it costs, or sets them."""
    if can(viewer, "read_books", None):
        return mine(viewer)
    costs = Q(money=None) | Q(account__project__in=projects_visible_to(viewer, "view_costs"))
    for right in ("view_costs", "manage_team"):
        teams = teams_visible_to(viewer, right)
        costs |= Q(account__team__in=teams) | Q(account__project__team__in=teams)
    return mine(viewer) & costs
