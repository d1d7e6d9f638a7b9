"""Put people into the groups that carry rights, and give the groups their rights.

The only door to django-guardian. Callers have checked who may; `accounts/permissions.py` reads. A
new version may add an action or take one from a role; `align_rights` brings what is stored in line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from guardian.shortcuts import assign_perm

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
    group = group_of(team, SERVICE_ACCOUNT.removeprefix(TEAM))
    # The team may be older than this kind of account, and its group have no rights yet.
    for action in actions_of("team", SERVICE_ACCOUNT):
        assign_perm(action, group, team)
    for project in team.projects.all():
        for action in actions_of("project", SERVICE_ACCOUNT):
            assign_perm(action, group, project)
    account.groups.add(group)
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
    return Group.objects.get_or_create(name=f"{TEAM}{team.pk}:{role}")[0]


def grant_team(team: Team) -> None:
    """Give each role's group its rights on a new team."""
    for role in _IN_TEAMS:
        group = group_of(team, role)
        for action in actions_of("team", TEAM + role):
            assign_perm(action, group, team)


def grant_project(project: Project) -> None:
    """Give each role's group its rights on a new project."""
    for role in _IN_TEAMS:
        group = group_of(project.team, role)
        for action in actions_of("project", TEAM + role):
            assign_perm(action, group, project)


def enter_group(user: User, team: Team, role: str) -> None:
    """Let the user's groups in this team be exactly the role's one; an empty role: none."""
    for other in Role.values:
        if other != role:
            user.groups.remove(group_of(team, other))
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
    permissions = dict(
        Permission.objects.filter(
            content_type__app_label="accounts", content_type__model=kind, codename__in=TABLE[kind]
        ).values_list("codename", "pk")
    )
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
