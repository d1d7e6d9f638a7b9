"""Put people into the groups that carry rights, and give the groups their rights.

The only door to django-guardian. Callers have checked who may; `accounts/permissions.py` reads.
"""

from __future__ import annotations

from django.contrib.auth.models import Group
from guardian.shortcuts import assign_perm

from accounts.models import OrganisationRole, Project, Role, Team, User
from accounts.permissions import DEPUTIES, forget_grants
from accounts.policy import ORGANISATION, TEAM, actions_of


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
    forget_grants(user)


def group_of(team: Team, role: str) -> Group:
    """The group whose rights a membership in this role gives."""
    return Group.objects.get_or_create(name=f"{TEAM}{team.pk}:{role}")[0]


def grant_team(team: Team) -> None:
    """Give each role's group its rights on a new team."""
    for role in Role.values:
        group = group_of(team, role)
        for action in actions_of("team", TEAM + role):
            assign_perm(action, group, team)


def grant_project(project: Project) -> None:
    """Give each role's group its rights on a new project."""
    for role in Role.values:
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
    forget_grants(user)
