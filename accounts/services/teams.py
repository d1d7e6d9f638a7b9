"""Teams and projects."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from accounts import names
from accounts.errors import Forbidden, Invalid
from accounts.models import Membership, Project, Role, Team, User
from accounts.permissions import can, enter_group, grant_project, grant_team
from accounts.services.audit import pictured, record


def _named(name: str, slug: str) -> tuple[str, str, str]:
    """Clean name, its confusable key, and slug; raises Invalid."""
    try:
        clean = names.clean_name(name)
    except ValueError as error:
        raise Invalid(str(error), field="name") from None
    try:
        clean_slug = names.clean_slug(slug or names.slug_for(clean))
    except ValueError as error:
        raise Invalid(str(error), field="slug" if slug else "name") from None
    return clean, names.confusable_key(clean), clean_slug


@transaction.atomic
def create_team(*, actor: User, name: str, slug: str = "") -> Team:
    """A new team with the actor as its lead. For administrators and operators."""
    if not can(actor, "operate", None):
        raise Forbidden("Only operators and administrators create teams. Ask one of them.")
    clean, key, clean_slug = _named(name, slug)
    try:
        with transaction.atomic():
            team = Team.objects.create(name=clean, name_key=key, slug=clean_slug)
    except IntegrityError:
        raise Invalid(
            "There is a team with this name, or one that looks alike.", field="name"
        ) from None
    grant_team(team)
    Membership.objects.create(team=team, user=actor, role=Role.LEAD)
    enter_group(actor, team, Role.LEAD)
    record(actor, "team.create", team, after=pictured(team, "name", "slug"))
    return team


@transaction.atomic
def rename_team(*, actor: User, team: Team, name: str) -> Team:
    """A new display name; the slug stays, because people and programs refer to it."""
    _require_lead(actor, team)
    clean, key, _ = _named(name, team.slug)
    before = pictured(team, "name")
    try:
        with transaction.atomic():
            Team.objects.filter(pk=team.pk).update(name=clean, name_key=key)
    except IntegrityError:
        raise Invalid(
            "There is a team with this name, or one that looks alike.", field="name"
        ) from None
    team.refresh_from_db()
    record(actor, "team.rename", team, before=before, after=pictured(team, "name"))
    return team


@transaction.atomic
def create_project(
    *, actor: User, team: Team, name: str, slug: str = "", description: str = ""
) -> Project:
    """A new project that this team pays for."""
    _require_lead(actor, team)
    clean, key, clean_slug = _named(name, slug)
    try:
        with transaction.atomic():
            project = Project.objects.create(
                team=team,
                name=clean,
                name_key=key,
                slug=clean_slug,
                description=description[:4096],
            )
    except IntegrityError:
        raise Invalid(
            "The team has a project with this name, or one that looks alike.", field="name"
        ) from None
    grant_project(project)
    record(actor, "project.create", project, after=pictured(project, "name", "slug", "description"))
    return project


@transaction.atomic
def archive_project(*, actor: User, project: Project, archived: bool = True) -> Project:
    """An archived project takes no new jobs; its history and costs stay."""
    if not can(actor, "manage_project", project):
        raise Forbidden("Only a lead of the team may archive a project.")
    before = pictured(project, "is_archived")
    Project.objects.filter(pk=project.pk).update(is_archived=archived)
    project.refresh_from_db()
    record(
        actor,
        "project.archive" if archived else "project.reopen",
        project,
        before=before,
        after=pictured(project, "is_archived"),
    )
    return project


def _require_lead(actor: User, team: Team) -> None:
    if not can(actor, "manage_team", team):
        raise Forbidden("Only a lead of the team may do this.")
