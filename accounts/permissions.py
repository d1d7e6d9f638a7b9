"""Who may do what: the one policy function, and the only door to django-guardian.

What a role may do stands in `accounts/policy.py`. A role in a team gives its rights through a group
(`team:<id>:<role>`), a role of the organisation through another (`organisation:<role>`);
memberships and role grants put people into them. Superusers, the administrators, may do everything.
Answers are read from the database once per user object, so a request sees one consistent picture
and the next one sees every change.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser, Group
from django.db.models import Q, QuerySet
from guardian.shortcuts import assign_perm

from accounts.models import (
    OrganisationRole,
    Project,
    ProjectGroupObjectPermission,
    Role,
    Team,
    TeamGroupObjectPermission,
    User,
)
from accounts.policy import COLUMNS, ORGANISATION, TEAM, actions_of, full_name, roles_for


@dataclass(frozen=True, slots=True)
class _Grants:
    """What one person has: (object id, action) pairs of own teams, and columns that count
    everywhere."""

    projects: frozenset[tuple[int, str]]
    teams: frozenset[tuple[int, str]]
    everywhere: frozenset[str]


def can(user: User | AnonymousUser, action: str, obj: Project | Team | None) -> bool:
    """Whether `user` may do `action` to a project, a team, or (None) the cluster.

    Raises KeyError for an action that does not exist: a typing error must not read as "no".
    """
    kind = _kind_of(obj)
    roles = roles_for(kind, action)
    if isinstance(user, AnonymousUser) or not user.is_active:
        return False
    if user.is_superuser:
        return True
    grants = _grants(user)
    if roles & grants.everywhere:
        return True
    if obj is None:
        return False
    held = grants.projects if isinstance(obj, Project) else grants.teams
    return (obj.pk, full_name(kind, action)) in held


def _kind_of(obj: Project | Team | None) -> str:
    if obj is None:
        return "cluster"
    return "project" if isinstance(obj, Project) else "team"


def is_operator(user: User | AnonymousUser) -> bool:
    """Whether the user looks after the cluster."""
    return can(user, "operate", None)


def projects_visible_to(user: User | AnonymousUser, action: str = "view") -> QuerySet[Project]:
    """The projects on which `user` may do `action`."""
    projects = Project.objects.select_related("team")
    needed = full_name("project", action)
    if isinstance(user, AnonymousUser) or not user.is_active:
        return projects.none()
    if user.is_superuser or roles_for("project", action) & _grants(user).everywhere:
        return projects
    return projects.filter(pk__in=[pk for pk, right in _grants(user).projects if right == needed])


def teams_visible_to(user: User | AnonymousUser, action: str = "view") -> QuerySet[Team]:
    """The teams on which `user` may do `action`."""
    needed = full_name("team", action)
    if isinstance(user, AnonymousUser) or not user.is_active:
        return Team.objects.none()
    if user.is_superuser or roles_for("team", action) & _grants(user).everywhere:
        return Team.objects.all()
    return Team.objects.filter(pk__in=[pk for pk, right in _grants(user).teams if right == needed])


def _grants(user: User) -> _Grants:
    cached: _Grants | None = getattr(user, "_trainyard_grants", None)
    if cached is None:
        cached = _Grants(
            projects=frozenset(
                ProjectGroupObjectPermission.objects.filter(group__user=user).values_list(
                    "content_object_id", "permission__codename"
                )
            ),
            teams=frozenset(
                TeamGroupObjectPermission.objects.filter(group__user=user).values_list(
                    "content_object_id", "permission__codename"
                )
            ),
            everywhere=_everywhere(user.groups.values_list("name", flat=True)),
        )
        user._trainyard_grants = cached  # type: ignore[attr-defined]
    return cached


def _everywhere(groups: QuerySet[Group, str]) -> frozenset[str]:
    """The columns that count for the whole cluster; operators of a team run all of it."""
    found = set()
    for name in groups:
        if name.startswith(ORGANISATION):
            found.add(name)
        elif name.startswith(TEAM) and name.endswith(f":{Role.OPERATOR}"):
            found.add(ORGANISATION + OrganisationRole.OPERATOR)
    return frozenset(found & set(COLUMNS))


def forget_grants(user: User) -> None:
    """Read the user's rights anew; for code that changes them and goes on with the same object."""
    user.__dict__.pop("_trainyard_grants", None)


def people_who_can(action: str, obj: Team | None) -> QuerySet[User]:
    """Everybody who may do `action` to a team or (None) the cluster, administrators included."""
    kind = _kind_of(obj)
    roles = roles_for(kind, action)
    who = Q(is_superuser=True)
    who |= Q(groups__name__in=[role for role in roles if role.startswith(ORGANISATION)])
    if ORGANISATION + OrganisationRole.OPERATOR in roles:
        who |= Q(memberships__role=Role.OPERATOR)
    if obj is not None:
        rows = TeamGroupObjectPermission.objects.filter(
            content_object=obj, permission__codename=full_name(kind, action)
        )
        who |= Q(groups__in=rows.values("group"))
    return User.objects.filter(who, is_active=True).distinct()


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
