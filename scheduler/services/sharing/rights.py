"""Who may set rules."""

from __future__ import annotations

from dataclasses import replace

from accounts.models import Project, Team, User
from accounts.permissions import can
from accounts.services.audit import Subject
from scheduler.models import Account, Quota
from scheduler.services.errors import Forbidden


def require_quota_setter(actor: User, owner: Team | Project | None) -> bool:
    """Operators set every quota, leads those of their team's projects within what the team has.

    True for one who is bound to that; raises Forbidden for everybody else.
    """
    if can(actor, "operate", None):
        return False
    if isinstance(owner, Project) and can(actor, "manage_team", owner.team):
        return True
    raise Forbidden("Only operators and administrators set this; leads set their projects'.")


def require_operator(actor: User) -> None:
    """Operators and administrators; raises Forbidden for everybody else."""
    if not can(actor, "operate", None):
        raise Forbidden("Only operators and administrators set limits, budgets and policies.")


def about(account: Account, kind: str = "account") -> Subject:
    """An account as what a change is about, by its owner's name; `kind` of the thing changed."""
    project, team = account.project, account.team
    if project is not None:
        return Subject(kind, str(account.pk), project.path, project.team_id)
    if team is not None:
        return Subject(kind, str(account.pk), team.slug, team.pk)
    return Subject(kind, str(account.pk), "the organisation")


def about_quota(quota: Quota) -> Subject:
    """A quota as what a change is about."""
    return replace(about(quota.account, "quota"), id=str(quota.pk))
