"""Which rows an account stands for: its own and those of all below it."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from accounts.models import Project
from accounts.models.teams import MAX_DEPTH
from scheduler.models import Account


def below(account: Account, to_project: str) -> Q:
    """The rows of `account` and all below it; `to_project` is the way to a row's project."""
    if account.project_id is not None:
        return Q(**{f"{to_project}_id": account.project_id})
    if account.team_id is not None:
        return of_team(account.team_id, to_project)
    return Q()


def of_team(team_id: int, to_project: str) -> Q:
    """The rows of a team and all below it.

    Its projects are found first: rows by the million are not joined to teams one by one.
    """
    return Q(**{f"{to_project}__in": projects_of(team_id).values("pk")})


def projects_of(team_id: int) -> QuerySet[Project]:
    """Those of a team and of all below it."""
    team, found = "team", Q()
    for _ in range(MAX_DEPTH):
        found |= Q(**{f"{team}_id": team_id})
        team += "__parent"
    return Project.objects.filter(found).order_by()


def projects_below(account: Account) -> QuerySet[Project] | None:
    """What an account stands for, as projects; None: all there are."""
    if account.project_id is not None:
        return Project.objects.filter(pk=account.project_id).order_by()
    return projects_of(account.team_id) if account.team_id is not None else None
