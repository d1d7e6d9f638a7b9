"""Accounts as rows: made before anything is asked of them, locked from the root down."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from accounts.models import Project, Team
from scheduler.models import Account
from scheduler.selectors.sharing.reach import below

ROOT_KEY = "org"


def account_of(owner: Team | Project | None) -> Account:
    """The account of a team, a project or the organisation (None), made if it is missing."""
    if owner is None:
        return _made(ROOT_KEY, depth=0)
    if isinstance(owner, Team):
        _made(ROOT_KEY, depth=0)
        return _made(f"team:{owner.pk}", depth=1, team=owner)
    _made(ROOT_KEY, depth=0)
    _made(f"team:{owner.team_id}", depth=1, team_id=owner.team_id)
    return _made(f"project:{owner.pk}", depth=2, project=owner)


def _made(key: str, **fields: object) -> Account:
    return Account.objects.get_or_create(key=key, defaults=fields)[0]


def lines_of(projects: Iterable[tuple[int, int]]) -> set[str]:
    """Keys of these projects (id, team id), their teams and the organisation."""
    keys = {ROOT_KEY}
    for project_id, team_id in projects:
        keys |= {f"project:{project_id}", f"team:{team_id}"}
    return keys


def locked(keys: Iterable[str]) -> list[Account]:
    """The accounts that exist, locked from the root down, so that nobody waits in a circle."""
    return list(
        Account.objects.select_for_update().filter(key__in=list(keys)).order_by("depth", "pk")
    )


def children(account: Account) -> QuerySet[Account]:
    """The accounts right below that have rules of their own."""
    if account.depth == 0:
        return Account.objects.filter(depth=1)
    if account.team_id is None:
        return Account.objects.none()
    return Account.objects.filter(depth=2, project__team_id=account.team_id)


def parent_of(account: Account) -> Account | None:
    """The account right above."""
    if account.depth == 0:
        return None
    if account.depth == 1:
        return Account.objects.filter(key=ROOT_KEY).first()
    assert account.project is not None
    return Account.objects.filter(key=f"team:{account.project.team_id}").first()


__all__ = ["ROOT_KEY", "account_of", "below", "children", "lines_of", "locked", "parent_of"]
