"""The reads of *who, and on whose bill*, for a viewer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db.models import Case, Prefetch, Q, QuerySet, When
from django.utils import timezone

from accounts.errors import Forbidden, Invalid, NotFound
from accounts.models import (
    ApiToken,
    Delegation,
    Invitation,
    Membership,
    OrganisationRole,
    Project,
    Role,
    RoleGrant,
    Team,
    User,
    UserKind,
)
from accounts.models.rows import as_rows
from accounts.permissions import (
    can,
    check_role,
    in_own_right,
    projects_visible_to,
    teams_visible_to,
)
from accounts.policy import TEAM
from accounts.secrets import hash_secret
from accounts.statements import AskedOnce
from accounts.trees import WAYS_UP, Around, around, levels


def visible_teams(viewer: User) -> QuerySet[Team]:
    """The teams the viewer belongs to; all of them for administrators."""
    return teams_visible_to(viewer)


def get_visible_team(viewer: User, slug: str) -> Team:
    """Raises NotFound for a missing and for a foreign team alike."""
    team = teams_visible_to(viewer).filter(slug=slug).first()
    if team is None:
        raise NotFound("There is no such team for you.")
    return team


def parts_of(viewer: User) -> Callable[[Team], str]:
    """What to call the viewer's part in a team: the role there, also in a preview of one; else
    what lets them see it, empty for a role of the organisation. One query, for all teams."""
    if viewer.preview_groups is not None:
        names = [group.removeprefix(TEAM).split(":") for group in viewer.preview_groups]
        roles = {int(team): role for team, role in names if team.isdecimal()}
    else:
        roles = dict(viewer.memberships.values_list("team_id", "role"))
    usual = "Administrator" if can(viewer, "administer_cluster", None) else ""

    def part_in(team: Team) -> str:
        if team.pk in roles:
            return str(Role(roles[team.pk]).label)
        is_led = not usual and in_own_right(viewer, "manage_team", team)
        return "Leads a team above" if is_led else usual

    return part_in


def every_project() -> list[tuple[int, int, str]]:
    """Id, team id and `team/project` of all projects, for the scheduler, which serves everybody;
    no page may use it."""
    return [(pk, team_id, f"{team}/{slug}") for pk, team_id, team, slug in PROJECTS.read()]


def every_team() -> list[tuple[int, str, int | None]]:
    """Id, slug and parent's id of all teams, each after its parent, for the scheduler."""
    rows = TEAMS.read()
    found: list[tuple[int, str, int | None]] = []
    level: set[int | None] = {None}
    while layer := [row for row in rows if row[2] in level]:
        found += layer
        level = {pk for pk, _, _ in layer}
    return found


def _projects() -> QuerySet[Project, tuple[Any, ...]]:
    return Project.objects.order_by("pk").values_list("pk", "team_id", "team__slug", "slug")


def _teams() -> QuerySet[Team, tuple[Any, ...]]:
    return Team.objects.order_by("pk").values_list("pk", "slug", "parent_id")


PROJECTS, TEAMS = AskedOnce(_projects), AskedOnce(_teams)


def visible_projects(viewer: User) -> QuerySet[Project]:
    """The projects of these teams."""
    return projects_visible_to(viewer)


def get_visible_project(viewer: User, path: str) -> Project:
    """The project written `team/project`; raises NotFound for missing and foreign alike.

    Equals looking for it among `visible_projects`; each submit asks.
    """
    team, _, slug = path.partition("/")
    for project in _WRITTEN.read(team, slug):
        if can(viewer, "view", project):
            return project
    raise NotFound("There is no such project for you.")


def _written(team: str, slug: str) -> QuerySet[Project]:
    return Project.objects.select_related("team").filter(team__slug=team, slug=slug)


_WRITTEN = AskedOnce(_written)


def named_project(viewer: User, path: str) -> Project | None:
    """The same of a field that may be empty: None; raises Invalid, which names it."""
    if not path.strip():
        return None
    try:
        return get_visible_project(viewer, path.strip())
    except NotFound as missing:
        raise Invalid(missing.detail, field="project") from None


def submittable_projects(viewer: User) -> QuerySet[Project]:
    """Projects the viewer may submit jobs to now."""
    return projects_visible_to(viewer, "submit_job").filter(is_archived=False)


def managed_projects(viewer: User) -> QuerySet[Project]:
    """Projects the viewer may change: their leads', and all for administrators."""
    return projects_visible_to(viewer, "manage_project").select_related("team")


def members_of(viewer: User, team: Team) -> QuerySet[Membership]:
    """The team's members by name; nobody for strangers."""
    if not can(viewer, "view", team):
        return Membership.objects.none()
    return team.memberships.select_related("user").order_by("user__username")


def invitations_of(
    viewer: User, team: Team, *, now: datetime | None = None
) -> QuerySet[Invitation]:
    """Open invitations, for those who may invite."""
    if not can(viewer, "manage_team", team):
        return Invitation.objects.none()
    return team.invitations.filter(
        accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=now or timezone.now()
    ).select_related("invited_by")


def tokens_of(viewer: User) -> QuerySet[ApiToken]:
    """The viewer's own tokens, revoked ones included, newest first."""
    return ApiToken.objects.filter(user=viewer).select_related("project__team")


def has_administrator() -> bool:
    """Whether somebody may do everything; False only on a fresh installation."""
    return User.objects.filter(is_superuser=True, is_active=True).exists()


def person_named(username: str) -> User | None:
    """For commands on the server itself, which see everybody; no page may use it."""
    return User.objects.filter(username=username).first()


def people_to_name(viewer: User) -> QuerySet[User]:
    """Whom the viewer may find by a user name: anybody for administrators and who reads the books,
    for others themselves and the people of the teams they see."""
    people = User.objects.filter(is_active=True)
    if can(viewer, "administer", None) or can(viewer, "read_books", None):
        return people
    theirs = Membership.objects.filter(team__in=teams_visible_to(viewer)).values("user")
    return people.filter(Q(pk=viewer.pk) | Q(pk__in=theirs))


def get_open_invitation(secret: str, *, now: datetime | None = None) -> Invitation:
    """The invitation behind a link; whoever has the secret may see it.

    Raises NotFound, also when its sender lost the right to give the role since.
    """
    found = (
        Invitation.objects.select_related("team", "invited_by")
        .filter(
            token_hash=hash_secret(secret),
            accepted_at__isnull=True,
            revoked_at__isnull=True,
            expires_at__gt=now or timezone.now(),
        )
        .first()
    )
    if found is None:
        raise NotFound("This invitation is used, expired or withdrawn. Ask for a new one.")
    try:
        check_role(found.invited_by or AnonymousUser(), found.team, found.role)
    except Forbidden:
        raise NotFound(
            "Who sent this invitation may not invite any more. Ask for a new one."
        ) from None
    return found


def role_grants(viewer: User) -> list[RoleGrant]:
    """Who holds which role of the organisation, and what waits for a second person; by name.

    For those who read settings. Administrators that nobody appointed, the first one above all, are
    in the list without a giver.
    """
    if not can(viewer, "read_settings", None):
        raise Forbidden("Only those who run, pay for or audit the cluster see who holds its roles.")
    grants = list(RoleGrant.objects.select_related("user", "given_by", "confirmed_by"))
    appointed = {grant.user_id for grant in grants if grant.role == OrganisationRole.ADMIN}
    grants += [
        RoleGrant(
            user=user,
            role=OrganisationRole.ADMIN,
            given_at=user.date_joined,
            confirmed_at=user.date_joined,
        )
        for user in User.objects.filter(is_superuser=True).exclude(pk__in=appointed)
    ]
    return sorted(grants, key=lambda grant: (grant.role, grant.user.username))


def get_person(viewer: User, username: str) -> User:
    """Somebody by user name, for administrators, who appoint. Raises NotFound."""
    if not can(viewer, "administer_cluster", None):
        raise Forbidden("Only administrators give and take roles of the organisation.")
    found = User.objects.filter(username__iexact=username).first()
    if found is None:
        raise NotFound("There is nobody with this user name.", field="username")
    return found


def teams_around(viewer: User, team: Team) -> Around:
    """Of all just those the viewer sees; one statement."""
    itself = Team.objects.filter(pk=team.pk)
    steps = [When(pk__in=itself.values(way), then=n) for n, way in enumerate(WAYS_UP, 1)]
    served = User.objects.filter(service_team=team.pk, kind=UserKind.SERVICE, is_active=True)
    seen = teams_visible_to(viewer).annotate(
        steps_up=Case(*steps, default=0),
        level=levels(),
        served=Case(When(pk=team.pk, then=as_rows(served.order_by(), "username"))),
    )
    leads = can(viewer, "manage_team", team)
    near = Q(parent=team) | Q(steps_up__gt=0) | Q(pk=team.pk)
    rows: list[Any] = list(seen if leads else seen.filter(near))
    # Who leads where it is now and where it goes may move it.
    mine = [one for one in rows if in_own_right(viewer, "manage_team", one)]
    may_move = (team.parent_id or team.pk) in {one.pk for one in mine}
    return around(team, rows, mine if may_move else ())


def delegations_of(viewer: User) -> QuerySet[Delegation]:
    """Those the viewer gave or holds; all of them for administrators."""
    rows = Delegation.objects.select_related("giver", "deputy", "team")
    if can(viewer, "administer_cluster", None):
        return rows
    return rows.filter(Q(giver=viewer) | Q(deputy=viewer))


def get_deputy(viewer: User, username: str) -> User:
    """Somebody whom the viewer lets act for them, by the exact user name; after
    `require_lender`, as who asks for a name learns whether it exists. Raises NotFound.
    """
    found = User.objects.filter(username__iexact=username, is_active=True).first()
    if found is None or found.is_service:
        raise NotFound("There is nobody with this user name.", field="deputy")
    return found


def service_accounts_of(viewer: User, team: Team) -> QuerySet[User]:
    """The team's accounts of programs with their tokens, by name; for who sees the team."""
    if not can(viewer, "view_team", team):
        return User.objects.none()
    accounts = User.objects.filter(service_team=team, kind=UserKind.SERVICE)
    tokens = Prefetch("api_tokens", ApiToken.objects.select_related("project__team"))
    return accounts.prefetch_related(tokens).order_by("-is_active", "username")
