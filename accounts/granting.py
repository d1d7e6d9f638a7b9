"""Put people into the groups that carry rights, and give the groups their rights.

The only door to django-guardian. Callers have checked who may; `accounts/permissions.py` reads. A
new version may add an action or take one from a role; `align_rights` brings what is stored in line.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.db.models import Model

from accounts.held import DEPUTIES, forget_grants
from accounts.models import (
    OrganisationRole,
    Project,
    ProjectGroupObjectPermission,
    Role,
    Team,
    TeamGroupObjectPermission,
    User,
)
from accounts.policy import ORGANISATION, SERVICE_ACCOUNT, TABLE, TEAM, actions_of

# What has a group in every team: the roles of people, and service accounts.
_IN_TEAMS = (*Role.values, SERVICE_ACCOUNT.removeprefix(TEAM))


def enter_service(account: User, team: Team) -> None:
    """Give a service account its rights in the team it belongs to."""
    role = SERVICE_ACCOUNT.removeprefix(TEAM)
    # The team may be older than this kind of account, and its group have no rights yet.
    _grant(TeamGroupObjectPermission, [team], team, (role,))
    _grant(ProjectGroupObjectPermission, list(team.projects.all()), team, (role,))
    account.groups.add(group_of(team, role))
    forget_grants(account)


def enter_deputies(user: User) -> None:
    """From now on the user's delegations are looked up."""
    user.groups.add(Group.objects.get_or_create(name=DEPUTIES)[0])
    forget_grants(user)


def enter_organisation(user: User, role: str, *, holds: bool) -> None:
    """Give or take the rights of a role of the organisation; the caller has checked who may."""
    if role == OrganisationRole.ADMIN:
        User.objects.filter(pk=user.pk).update(is_superuser=holds, is_staff=holds)
        user.is_superuser = user.is_staff = holds
    else:
        group = Group.objects.get_or_create(name=ORGANISATION + role)[0]
        (user.groups.add if holds else user.groups.remove)(group)
    _renew_sessions(user)
    forget_grants(user)


def group_of(team: Team, role: str) -> Group:
    """The group whose rights a membership in this role gives."""
    return Group.objects.get_or_create(name=_name_of(team, role))[0]


def grant_team(team: Team) -> None:
    """Give each role's group its rights on a new team."""
    _grant(TeamGroupObjectPermission, [team], team, _IN_TEAMS)


def grant_project(project: Project) -> None:
    """Give each role's group its rights on a new project."""
    _grant(ProjectGroupObjectPermission, [project], project.team, _IN_TEAMS)


def _grant(table: Any, things: Sequence[Model], team: Team, roles: Sequence[str]) -> None:
    """Equals guardian's `assign_perm(action, group, thing)` for every action of every role, in a
    constant number of statements."""
    kind = table._meta.get_field("content_object").related_model._meta.model_name
    groups, permissions = _groups_of(team, roles), _permissions_of(kind)
    rows = [
        table(group_id=group, permission_id=permissions[action], content_object_id=thing.pk)
        for role, group in groups.items()
        for action in actions_of(kind, TEAM + role)
        for thing in things
    ]
    table.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1000)


def _groups_of(team: Team, roles: Sequence[str]) -> dict[str, int]:
    """The id of each role's group of this team; they are made where they are missing."""
    named = {_name_of(team, role): role for role in roles}
    stored = Group.objects.filter(name__in=named)
    if stored.count() < len(named):
        Group.objects.bulk_create([Group(name=name) for name in named], ignore_conflicts=True)
    return {named[name]: pk for pk, name in stored.values_list("pk", "name")}


def _permissions_of(kind: str) -> dict[str, int]:
    """The id of each action on things of this kind."""
    of_kind = Permission.objects.filter(
        content_type__app_label="accounts", content_type__model=kind, codename__in=TABLE[kind]
    )
    return dict(of_kind.values_list("codename", "pk"))


def _name_of(team: Team, role: str) -> str:
    return f"{TEAM}{team.pk}:{role}"


def enter_group(user: User, team: Team, role: str) -> None:
    """Let the user's groups in this team be exactly the role's one; an empty role: none."""
    others = [_name_of(team, other) for other in Role.values if other != role]
    user.groups.remove(*Group.objects.filter(name__in=others))
    if role:
        user.groups.add(group_of(team, role))
    _renew_sessions(user)
    forget_grants(user)


def _renew_sessions(user: User) -> None:
    """A key that somebody got hold of before opens nothing of what the role brings."""
    # The engine stands above.
    import_module(settings.SESSION_ENGINE).SessionStore.renew_all_of(user)


def align_rights() -> int:
    """After migrations: every group has exactly what the table says, in a constant number of
    queries. How many rows were missing or too many."""
    create_permissions(apps.get_app_config("accounts"), verbosity=0)
    teams = {pk: pk for pk in Team.objects.values_list("pk", flat=True)}
    projects = dict(Project.objects.values_list("pk", "team_id"))
    changed = _align("team", TeamGroupObjectPermission, teams)
    return changed + _align("project", ProjectGroupObjectPermission, projects)


def _align(kind: str, table: Any, team_of: dict[int, int]) -> int:
    """`team_of`: the team of every thing of this kind, by its id."""
    groups = {
        name: pk
        for pk, name in Group.objects.filter(name__startswith=TEAM).values_list("pk", "name")
    }
    permissions = _permissions_of(kind)
    wanted = {
        (groups[f"{TEAM}{team}:{role}"], thing, permissions[action])
        for thing, team in team_of.items()
        for role in _IN_TEAMS
        if f"{TEAM}{team}:{role}" in groups
        for action in actions_of(kind, TEAM + role)
    }
    fields = ("group_id", "content_object_id", "permission_id")
    there = {row[1:]: row[0] for row in table.objects.values_list("pk", *fields)}
    missing = [dict(zip(fields, row, strict=True)) for row in sorted(wanted - there.keys())]
    table.objects.bulk_create([table(**row) for row in missing], batch_size=1000)
    surplus = [there[row] for row in there.keys() - wanted]
    for start in range(0, len(surplus), 500):
        table.objects.filter(pk__in=surplus[start : start + 500]).delete()
    return len(missing) + len(surplus)
