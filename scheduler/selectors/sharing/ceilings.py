"""Ceilings of tiers and caps, for a viewer: those on one's own teams and on everybody."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q, QuerySet

from accounts.models import User
from accounts.permissions import can, teams_visible_to
from scheduler.conf import load_conf
from scheduler.models import Account
from scheduler.states import Tier


def visible_ceilings(viewer: User) -> Sequence[tuple[str, str]]:
    """Whose, as `team`, `team/project` or nothing for the organisation, and the tier. One query
    beside that for the viewer's rights."""
    found = _visible(viewer).filter(priority_ceiling__isnull=False)
    return [(_path(one), Tier(one.priority_ceiling or 0).name.lower()) for one in found]


def visible_caps(viewer: User) -> Sequence[tuple[str, Account]]:
    """The same for caps on jobs and sessions, of accounts that have any."""
    return [(_path(account), account) for account in _visible(viewer) if is_capped(account)]


def is_capped(account: Account) -> bool:
    """Whether jobs or sessions of all below are capped."""
    figures = (account.max_gpus_per_job, account.max_running)
    more = (account.max_pending, account.max_sessions)
    return any(figure is not None for figure in (*figures, *more))


def _visible(viewer: User) -> QuerySet[Account]:
    whose = Q()
    if not can(viewer, "read_settings", None):
        teams = teams_visible_to(viewer)
        whose = Q(depth=0) | Q(team__in=teams) | Q(project__team__in=teams)
    return Account.objects.filter(whose).select_related("team", "project__team")


def usual_ceiling() -> str:
    """The tier that holds where no account has one."""
    return load_conf().tier_ceiling


def _path(account: Account) -> str:
    if account.project is not None:
        return account.project.path
    return account.team.slug if account.team is not None else ""
