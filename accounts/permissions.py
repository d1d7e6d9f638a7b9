"""Who may do what: the only door to django-guardian.

Rights hang on groups, one for each team and role (`team:<id>:<role>`); a membership puts a person
into its group. Operators act on the whole cluster, whatever team made them operators. Superusers
may do everything. Answers are read from the database once per user object, so a request sees one
consistent picture and the next one sees every change.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser, Group
from django.db.models import Q, QuerySet
from guardian.shortcuts import assign_perm

from accounts.models import (
    Membership,
    Project,
    ProjectGroupObjectPermission,
    Role,
    Team,
    TeamGroupObjectPermission,
    User,
)

# action: permission, by kind of object
_PROJECT_ACTIONS = {
    "view": "view_project",
    "submit_job": "submit_job",
    "read_log": "read_log",
    "view_costs": "view_costs",
    "manage_project": "manage_project",
}
_TEAM_ACTIONS = {"view": "view_team", "manage_team": "manage_team", "view_costs": "view_costs"}
_CLUSTER_ACTIONS = frozenset({"operate", "administer", "keep_books", "read_audit"})
# Whoever is in this group keeps the books of the whole cluster, whatever teams they are in.
BOOKKEEPERS = "cluster:books"

_WORKS = ("view_project", "submit_job", "read_log", "view_costs")
PROJECT_RIGHTS: dict[str, tuple[str, ...]] = {
    Role.MEMBER: _WORKS,
    Role.LEAD: (*_WORKS, "manage_project"),
    Role.FINANCE: ("view_project", "view_costs"),
    Role.OPERATOR: _WORKS,
}
TEAM_RIGHTS: dict[str, tuple[str, ...]] = {
    Role.MEMBER: ("view_team",),
    Role.LEAD: ("view_team", "manage_team", "view_costs"),
    Role.FINANCE: ("view_team", "view_costs"),
    Role.OPERATOR: ("view_team",),
}


@dataclass(frozen=True, slots=True)
class _Grants:
    projects: frozenset[tuple[int, str]]
    teams: frozenset[tuple[int, str]]
    is_operator: bool


def can(user: User | AnonymousUser, action: str, obj: Project | Team | None) -> bool:
    """Whether `user` may do `action` to a project, a team, or (None) the cluster.

    Raises KeyError for an action that does not exist: a typing error must not read as "no".
    """
    if obj is None and action not in _CLUSTER_ACTIONS:
        raise KeyError(action)
    needed = ""
    if isinstance(obj, Project):
        needed = _PROJECT_ACTIONS[action]
    elif isinstance(obj, Team):
        needed = _TEAM_ACTIONS[action]
    if isinstance(user, AnonymousUser) or not user.is_active:
        return False
    if user.is_superuser:
        return True
    if obj is None:
        if action == "keep_books":
            return user.groups.filter(name=BOOKKEEPERS).exists()
        return action == "operate" and _grants(user).is_operator
    if isinstance(obj, Project):
        return (obj.pk, needed) in _grants(user).projects
    return (obj.pk, needed) in _grants(user).teams


def is_operator(user: User | AnonymousUser) -> bool:
    """Whether the user looks after the cluster."""
    return can(user, "operate", None)


def projects_visible_to(user: User | AnonymousUser, action: str = "view") -> QuerySet[Project]:
    """The projects on which `user` may do `action`."""
    projects = Project.objects.select_related("team")
    if isinstance(user, AnonymousUser) or not user.is_active:
        return projects.none()
    if user.is_superuser:
        return projects
    needed = _PROJECT_ACTIONS[action]
    return projects.filter(pk__in=[pk for pk, right in _grants(user).projects if right == needed])


def teams_visible_to(user: User | AnonymousUser, action: str = "view") -> QuerySet[Team]:
    """The teams on which `user` may do `action`."""
    if isinstance(user, AnonymousUser) or not user.is_active:
        return Team.objects.none()
    if user.is_superuser:
        return Team.objects.all()
    needed = _TEAM_ACTIONS[action]
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
            is_operator=Membership.objects.filter(user=user, role=Role.OPERATOR).exists(),
        )
        user._trainyard_grants = cached  # type: ignore[attr-defined]
    return cached


def forget_grants(user: User) -> None:
    """Read the user's rights anew; for code that changes them and goes on with the same object."""
    user.__dict__.pop("_trainyard_grants", None)


def people_who_can(action: str, obj: Team | None) -> QuerySet[User]:
    """Everybody who may do `action` to a team or (None) the cluster, administrators included."""
    people = User.objects.filter(is_active=True)
    if obj is None:
        if action == "keep_books":
            return bookkeepers()
        if action not in _CLUSTER_ACTIONS:
            raise KeyError(action)
        operators = Q(memberships__role=Role.OPERATOR) if action == "operate" else Q()
        return people.filter(Q(is_superuser=True) | operators).distinct()
    groups = TeamGroupObjectPermission.objects.filter(
        content_object=obj, permission__codename=_TEAM_ACTIONS[action]
    ).values("group")
    return people.filter(Q(is_superuser=True) | Q(groups__in=groups)).distinct()


def bookkeepers() -> QuerySet[User]:
    """Everybody who may keep the books: proposes and approves prices and postings."""
    of_group = Group.objects.filter(name=BOOKKEEPERS)
    return User.objects.filter(
        Q(is_superuser=True) | Q(groups__in=of_group), is_active=True
    ).distinct()


def set_bookkeeper(user: User, *, keeps: bool) -> None:
    """Put the user into the group of bookkeepers, or take the user out."""
    group = Group.objects.get_or_create(name=BOOKKEEPERS)[0]
    (user.groups.add if keeps else user.groups.remove)(group)


def group_of(team: Team, role: str) -> Group:
    """The group whose rights a membership in this role gives."""
    return Group.objects.get_or_create(name=f"team:{team.pk}:{role}")[0]


def grant_team(team: Team) -> None:
    """Give each role's group its rights on a new team."""
    for role, rights in TEAM_RIGHTS.items():
        group = group_of(team, role)
        for right in rights:
            assign_perm(right, group, team)


def grant_project(project: Project) -> None:
    """Give each role's group its rights on a new project."""
    for role, rights in PROJECT_RIGHTS.items():
        group = group_of(project.team, role)
        for right in rights:
            assign_perm(right, group, project)


def enter_group(user: User, team: Team, role: str) -> None:
    """Let the user's groups in this team be exactly the role's one; an empty role: none."""
    for other in Role.values:
        if other != role:
            user.groups.remove(group_of(team, other))
    if role:
        user.groups.add(group_of(team, role))
    forget_grants(user)
