"""Of the projects of one submit: what each would be asked for alone is read in one go."""

from __future__ import annotations

from collections.abc import Sequence

from accounts.models import Project, User
from accounts.selectors import visible_projects
from scheduler.models import Account, Quota
from scheduler.services.sharing.tree import lines_of
from scheduler.services.submitting.ceilings import refuse_above_ceiling, usual_ceiling
from scheduler.services.submitting.targets import Seen
from scheduler.spec import JobSpec


def look_ahead(seen: Seen, actor: User, specs: Sequence[JobSpec]) -> None:
    """Note what no rule concerns: projects without a ceiling, a cap or a longest time on their way
    up. Equals asking for each when its turn comes, which is what happens to all others.

    Three queries for any number, and one for projects that were not looked up before.
    """
    paths = {spec.project for spec in specs} - seen.projects.keys()
    if paths:
        teams, slugs = zip(*(path.partition("/")[::2] for path in paths), strict=True)
        found = visible_projects(actor).filter(team__slug__in=teams, slug__in=slugs)
        named = {f"{project.team.slug}/{project.slug}": project for project in found}
        seen.projects |= {path: named[path] for path in paths & named.keys()}
    projects = list(seen.projects.values())
    ways = lines_of({(project.pk, project.team_id) for project in projects})
    keys = frozenset[str]().union(*ways.values())
    rules = Account.objects.filter(key__in=keys).values_list(
        "key", "priority_ceiling", "max_pending", "max_sessions"
    )
    with_ceiling, with_cap = set[str](), set[str]()
    for key, ceiling, pending, sessions in rules:
        if ceiling is not None:
            with_ceiling.add(key)
        if pending is not None or sessions is not None:
            with_cap.add(key)
    longest = Quota.objects.filter(account__key__in=keys, max_hours__isnull=False)
    with_hours = set(longest.values_list("account__key", flat=True))
    for project in projects:
        way = ways[project.pk]
        seen.capped[project.pk] = bool(way & with_cap)
        if not way & with_hours:
            seen.unlimited.add(project.pk)
        if not way & with_ceiling:
            _pass_usual(seen, project, specs)


def _pass_usual(seen: Seen, project: Project, specs: Sequence[JobSpec]) -> None:
    """Where there is no ceiling, tiers up to the server's own are open."""
    tiers = {spec.tier_number for spec in specs}
    usual = usual_ceiling()
    seen.passed |= {(refuse_above_ceiling, project, tier) for tier in tiers if tier <= usual}
