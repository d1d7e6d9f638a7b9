"""Who may do what: the one policy function.

What a role may do stands in `accounts/policy.py`. A role in a team gives its rights through a group
(`team:<id>:<role>`), a role of the organisation through another (`organisation:<role>`);
memberships and role grants put people into them. Superusers, the administrators, may do everything.
A lead leads the teams below, too. A delegation to manage a team counts as long as its time; one to
decide on requests does not here, because a decision names for whom it is: ask `acting_for`.
Who came with a token that is bound to a project holds rights there alone, whatever the role.
Answers are read from the database once per user object, so a request sees one consistent picture
and the next one sees every change.
"""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.errors import Forbidden, Invalid
from accounts.held import grants_of
from accounts.models import (
    DelegationScope,
    OrganisationRole,
    Project,
    Role,
    Team,
    TeamGroupObjectPermission,
    User,
)
from accounts.policy import LEAD, ORGANISATION, SCOPES, full_name, roles_for
from accounts.trees import leads_above


def can(user: User | AnonymousUser, action: str, obj: Project | Team | None) -> bool:
    """Whether `user` may do `action` to a project, a team, or (None) the cluster.

    Raises KeyError for an action that does not exist: a typing error must not read as "no".
    """
    if in_own_right(user, action, obj):
        return True
    if (_kind_of(obj), full_name(_kind_of(obj), action)) not in SCOPES[DelegationScope.MANAGE_TEAM]:
        return False
    return bool(acting_for(user, action, obj))


def in_own_right(user: User | AnonymousUser, action: str, obj: Project | Team | None) -> bool:
    """The same without what others let the user do in their place."""
    kind = _kind_of(obj)
    roles = roles_for(kind, action)
    if isinstance(user, AnonymousUser) or not user.is_active:
        return False
    if user.bound_project is not None and not _is_bound_to(user, obj):
        return False
    if user.is_superuser:
        return True
    grants = grants_of(user)
    if roles & grants.everywhere:
        return True
    if obj is None:
        return False
    team = obj.team_id if isinstance(obj, Project) else obj.pk
    if LEAD in roles and team in grants.below:
        return True
    held = grants.projects if isinstance(obj, Project) else grants.teams
    return (obj.pk, full_name(kind, action)) in held


def acting_for(
    user: User | AnonymousUser, action: str, obj: Project | Team | None
) -> tuple[User, ...]:
    """The people in whose place `user` may do this now, by user name; not the user.

    They let the user, their time runs, and they may do it in their own right: what somebody was
    lent is not lent on.
    """
    kind = _kind_of(obj)
    wanted = (kind, full_name(kind, action))
    if isinstance(user, AnonymousUser) or not user.is_active or user.is_service:
        return ()
    if user.bound_project is not None:
        return ()
    team = obj.team_id if isinstance(obj, Project) else obj.pk if obj else None
    now = timezone.now()
    givers = {
        each.giver.username: each.giver
        for each in grants_of(user).acts_for
        if wanted in SCOPES[each.scope]
        and each.starts_at <= now < each.ends_at
        and each.team_id in (None, team)
        and in_own_right(each.giver, action, obj)
    }
    return tuple(givers[name] for name in sorted(givers))


def reads_inside(user: User, project: Project) -> bool:
    """Whether `user` is shown what lies inside the project's jobs: logs and all that is taken from
    them, specs, paths. Whoever came with a token without `logs:read` is not, whatever their role.

    To do something with a job that shows nothing of it, such as run it again, ask `can`.
    """
    return user.reads_logs and can(user, "read_log", project)


def can_act_for(
    user: User | AnonymousUser, giver: User, action: str, obj: Project | Team | None
) -> bool:
    """Whether `user` may do this now in the place of `giver`."""
    return giver in acting_for(user, action, obj)


def on_behalf_of(user: User, action: str, obj: Project | Team | None) -> User | None:
    """In whose place the user does what `can` allows; None in the user's own right."""
    if in_own_right(user, action, obj):
        return None
    return next(iter(acting_for(user, action, obj)), None)


def managed_for(user: User, obj: Project | Team) -> User | None:
    """In whose place the user manages it; None for who may do so in their own right, or as who
    operates everything."""
    if can(user, "operate", None):
        return None
    return on_behalf_of(user, "manage_project" if isinstance(obj, Project) else "manage_team", obj)


def check_role(actor: User | AnonymousUser, team: Team, role: str) -> None:
    """Whether the actor may give this role in this team; raises Forbidden or Invalid."""
    if role not in Role.values:
        raise Invalid(f"Choose one of {', '.join(Role.values)}.", field="role")
    if not can(actor, "manage_team", team):
        raise Forbidden("Only a lead of the team may change its members.")
    if role == Role.OPERATOR and not can(actor, "operate", None):
        raise Forbidden("Only an operator may make somebody an operator.")
    if role == Role.LEAD and not in_own_right(actor, "manage_team", team):
        raise Forbidden("Who acts for a lead makes nobody a lead. Ask the lead.")


def _kind_of(obj: Project | Team | None) -> str:
    if obj is None:
        return "cluster"
    return "project" if isinstance(obj, Project) else "team"


def _is_bound_to(user: User, obj: Project | Team | None) -> bool:
    return isinstance(obj, Project) and obj.pk == user.bound_project


def is_operator(user: User | AnonymousUser) -> bool:
    """Whether the user looks after the cluster."""
    return can(user, "operate", None)


def projects_visible_to(user: User | AnonymousUser, action: str = "view") -> QuerySet[Project]:
    """The projects on which `user` may do `action`."""
    projects = Project.objects.select_related("team")
    needed = full_name("project", action)
    if isinstance(user, AnonymousUser) or not user.is_active:
        return projects.none()
    if user.bound_project is not None:
        projects = projects.filter(pk=user.bound_project)
    if user.is_superuser or roles_for("project", action) & grants_of(user).everywhere:
        return projects
    mine = Q(pk__in=[pk for pk, right in grants_of(user).projects if right == needed])
    if LEAD in roles_for("project", action):
        mine |= Q(team__in=grants_of(user).below)
    lent = Q(team__in=_teams_lent(user, "project", needed))
    return projects.filter(mine | lent)


def teams_visible_to(user: User | AnonymousUser, action: str = "view") -> QuerySet[Team]:
    """The teams on which `user` may do `action`."""
    found = team_ids_for(user, action)
    return Team.objects.all() if found is None else Team.objects.filter(pk__in=found)


def team_ids_for(user: User | AnonymousUser, action: str = "view") -> frozenset[int] | None:
    """The same as numbers of teams; None: every team. Asks the database for nothing but rights."""
    if isinstance(user, AnonymousUser) or not user.is_active or user.bound_project is not None:
        return frozenset()
    own = _own_team_ids(user, action)
    return own if own is None else own | _teams_lent(user, "team", full_name("team", action))


def team_ids_acted_for(user: User | AnonymousUser, action: str) -> frozenset[int] | None:
    """The teams for which `acting_for` finds somebody; None: every team."""
    if isinstance(user, AnonymousUser) or not user.is_active or user.is_service:
        return frozenset()
    if user.bound_project is not None:
        return frozenset()
    found: set[int] = set()
    wanted, now = ("team", full_name("team", action)), timezone.now()
    for each in grants_of(user).acts_for:
        if wanted in SCOPES[each.scope] and each.starts_at <= now < each.ends_at:
            own = _own_team_ids(each.giver, action)
            if each.team_id is not None:
                own = frozenset({each.team_id}) & (own if own is not None else {each.team_id})
            if own is None:
                return None
            found |= own
    return frozenset(found)


def _own_team_ids(user: User, action: str) -> frozenset[int] | None:
    """The teams on which the user may do it in their own right; None: every team."""
    if user.is_superuser or roles_for("team", action) & grants_of(user).everywhere:
        return None
    needed = full_name("team", action)
    mine = {pk for pk, right in grants_of(user).teams if right == needed}
    if LEAD in roles_for("team", action):
        mine |= grants_of(user).below
    return frozenset(mine)


def _teams_lent(user: User, kind: str, action: str) -> set[int]:
    """The teams where somebody lets the user do this in managing a team."""
    if (kind, action) not in SCOPES[DelegationScope.MANAGE_TEAM]:
        return set()
    found: set[int] = set()
    now = timezone.now()
    for each in grants_of(user).acts_for:
        if each.scope == DelegationScope.MANAGE_TEAM and each.starts_at <= now < each.ends_at:
            of_it = set() if each.team_id is None else {each.team_id}
            if not each.giver.is_superuser:
                led = _led_by(each.giver)
                found |= led & of_it if of_it else led
            else:
                found |= of_it or set(Team.objects.values_list("pk", flat=True))
    return found


def _led_by(user: User) -> set[int]:
    """The teams a person leads in their own right, those below included."""
    grants = grants_of(user)
    return {pk for pk, right in grants.teams if right == "manage_team"} | grants.below


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
        if LEAD in roles:
            who |= leads_above(obj)
    return User.objects.filter(who, is_active=True).distinct()
