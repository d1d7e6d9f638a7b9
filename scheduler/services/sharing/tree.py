"""Accounts as rows: made before anything is asked of them, locked from the root down.

The organisation is the root, teams lie below it or below another team, projects below their team.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from django.db.models import Q, QuerySet

from accounts.models import Project, Team
from accounts.models.teams import MAX_DEPTH
from accounts.trees import ways_up
from scheduler.models import Account
from scheduler.selectors.sharing.reach import below

ROOT_KEY = "org"


def account_of(owner: Team | Project | None) -> Account:
    """The account of a team, a project or the organisation (None), made if it is missing, with
    all above it."""
    root = _made(ROOT_KEY, depth=0)
    if owner is None:
        return root
    team_id = owner.pk if isinstance(owner, Team) else owner.team_id
    way = [team_id, *ways_up([team_id])[team_id]]
    for depth, pk in enumerate(reversed(way), start=1):
        account = _made(f"team:{pk}", depth=depth, team_id=pk)
    if isinstance(owner, Team):
        return account
    return _made(f"project:{owner.pk}", depth=len(way) + 1, project=owner)


def _made(key: str, **fields: object) -> Account:
    return Account.objects.get_or_create(key=key, defaults=fields)[0]


def lines_of(projects: Collection[tuple[int, int]]) -> dict[int, frozenset[str]]:
    """For each of these projects (id, team id) its own key, those of the teams on its way up and
    of the organisation; one query."""
    ways = ways_up(team_id for _, team_id in projects)
    return {
        project_id: frozenset(
            {ROOT_KEY, f"project:{project_id}"} | {f"team:{pk}" for pk in (team_id, *ways[team_id])}
        )
        for project_id, team_id in projects
    }


def line_of(project: Project) -> frozenset[str]:
    """The same for one project."""
    return lines_of([(project.pk, project.team_id)])[project.pk]


def keys_of(owner: Team | Project | None) -> frozenset[str]:
    """The owner's own key and those of all above it; one query, none for the organisation."""
    if owner is None:
        return frozenset({ROOT_KEY})
    if isinstance(owner, Project):
        return line_of(owner)
    return frozenset(
        {ROOT_KEY} | {f"team:{pk}" for pk in (owner.pk, *ways_up([owner.pk])[owner.pk])}
    )


def owners_over(projects: Sequence[int], path: str = "") -> Q:
    """The accounts that `lines_of` names for these projects (ids); `path` leads to the account."""
    found = Q(**{f"{path}key": ROOT_KEY}) | Q(**{f"{path}project_id__in": projects})
    way = "projects"
    for _ in range(MAX_DEPTH):
        teams = Team.objects.filter(**{f"{way}__in": projects}).order_by().values("pk")
        found |= Q(**{f"{path}team_id__in": teams})
        way = f"children__{way}"
    return found


def on_the_way(projects: Iterable[tuple[int, int]]) -> Q:
    """The accounts that `lines_of` names, without a query of its own."""
    keys, teams = {ROOT_KEY}, set()
    for project_id, team_id in projects:
        keys |= {f"project:{project_id}", f"team:{team_id}"}
        teams.add(team_id)
    found = Q(key__in=keys)
    way = "children"
    for _ in range(MAX_DEPTH - 1):
        found |= Q(team__in=Team.objects.filter(**{f"{way}__in": teams}).values("pk"))
        way += "__children"
    return found


def locked(which: Q) -> list[Account]:
    """The accounts that exist, locked from the root down, so that nobody waits in a circle."""
    return list(to_lock(which))


def to_lock(which: Q) -> QuerySet[Account]:
    """The same before it is asked. Without their keys: an end may write rows that name them."""
    return Account.objects.select_for_update(no_key=True).filter(which).order_by("depth", "pk")


def children(account: Account) -> QuerySet[Account]:
    """The accounts right below that have rules of their own."""
    if account.depth == 0:
        return Account.objects.filter(team__isnull=False, team__parent__isnull=True)
    if account.team_id is None:
        return Account.objects.none()
    team_id = account.team_id
    return Account.objects.filter(Q(project__team_id=team_id) | Q(team__parent_id=team_id))


def parent_of(account: Account) -> Account | None:
    """The account right above."""
    if account.depth == 0:
        return None
    if account.project is not None:
        above: int | None = account.project.team_id
    else:
        assert account.team is not None
        above = account.team.parent_id
    key = ROOT_KEY if above is None else f"team:{above}"
    return Account.objects.filter(key=key).first()


def name_of(account: Account) -> str:
    """What the engine calls it."""
    if account.project is not None:
        return account.project.path
    return account.team.slug if account.team is not None else "the organisation"


def whose_account(account: Account, project: Project) -> str:
    """An account on the project's way up as people of the project call it; "" for the root."""
    if account.project_id is not None:
        return "this project"
    if account.team is None:
        return ""
    return "your team" if account.team_id == project.team_id else f"the team {account.team.slug}"


__all__ = [
    "ROOT_KEY",
    "account_of",
    "below",
    "children",
    "keys_of",
    "line_of",
    "lines_of",
    "locked",
    "name_of",
    "on_the_way",
    "parent_of",
    "to_lock",
    "whose_account",
]
