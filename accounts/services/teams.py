"""Teams and projects."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts import names
from accounts.errors import Conflict, Forbidden, Invalid
from accounts.granting import enter_group, grant_project, grant_team
from accounts.held import forget_grants
from accounts.models import (
    CostCentre,
    Membership,
    Project,
    RateCard,
    RateDecision,
    Role,
    Team,
    TeamPast,
    User,
)
from accounts.models.teams import MAX_DEPTH
from accounts.permissions import can, in_own_right, on_behalf_of
from accounts.services.audit import pictured, record
from accounts.trees import height_of, teams_above, teams_below

_CODE = re.compile(r"[A-Z0-9][A-Z0-9._-]{0,31}", re.ASCII)
_SAME_NAME = "There is a team with this name, or one that looks alike."


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


def _taken(there: QuerySet[Any], key: str, slug: str, same: str) -> Invalid:
    """What stands in the way of one more: one of the `same` name, or of this short name alone."""
    if not there.filter(name_key=key).exists() and there.filter(slug=slug).exists():
        return Invalid(f"The short name {slug} is taken; choose another.", field="slug")
    return Invalid(same, field="name")


@transaction.atomic
def create_team(*, actor: User, name: str, slug: str = "", parent: Team | None = None) -> Team:
    """A new team with the actor as its lead; below a `parent` for who leads that one.

    For administrators and operators, and for leads below their own teams. It begins in the
    parent's cost centre; from then on each has its own.
    """
    if parent is not None:
        if not in_own_right(actor, "manage_team", parent):
            raise Forbidden("Only who leads a team makes teams below it.")
        # It stays where it is until this team is there.
        parent = Team.objects.select_for_update(no_key=True).get(pk=parent.pk)
        _check_depth(levels_above=len(teams_above(parent)) + 1, levels=1)
    elif not can(actor, "operate", None):
        raise Forbidden("Only operators and administrators create teams. Ask one of them.")
    clean, key, clean_slug = _named(name, slug)
    try:
        with transaction.atomic():
            team = Team.objects.create(
                name=clean,
                name_key=key,
                slug=clean_slug,
                parent=parent,
                cost_centre_id=parent.cost_centre_id if parent else None,
            )
    except IntegrityError:
        raise _taken(Team.objects.all(), key, clean_slug, _SAME_NAME) from None
    grant_team(team)
    Membership.objects.create(team=team, user=actor, role=Role.LEAD)
    enter_group(actor, team, Role.LEAD)
    after = pictured(team, "name", "slug") | {"parent": parent.slug if parent else ""}
    if team.cost_centre_id:
        after["cost_centre"] = team.cost_centre_id
    record(actor, "team.create", team, after=after)
    return team


@transaction.atomic
def move_team(*, actor: User, team: Team, parent: Team | None) -> Team:
    """Put a team below another, or (None) at the top.

    For administrators; a lead of both the new parent and the team's present one (the team itself
    while it is at the top) may put it below. The team's new leads come with the parent, the old
    ones' rights from above end. Raises Invalid for a circle and for too many levels, both by name;
    Forbidden. What quotas and budgets make of it is the caller's: see `scheduler`.
    """
    # One move at a time, else two that are fine by themselves close a circle.
    list(Team.objects.select_for_update(no_key=True).order_by("pk").values_list("pk"))
    team = Team.objects.select_related("parent").get(pk=team.pk)
    _check_mover(actor, team, parent)
    if parent is not None:
        _check_circle(team, parent)
        _check_depth(levels_above=len(teams_above(parent)) + 1, levels=height_of(team))
    _check_prices(team, parent)
    before = {"parent": team.parent.slug if team.parent else ""}
    Team.objects.filter(pk=team.pk).update(parent=parent)
    team.refresh_from_db()
    forget_grants(actor)
    after = {"parent": parent.slug if parent else ""}
    record(actor, "team.move", team, before=before, after=after)
    return team


def _check_mover(actor: User, team: Team, parent: Team | None) -> None:
    if can(actor, "administer_cluster", None):
        return
    if parent is None:
        raise Forbidden("Only administrators take a team out from below another.")
    for one in (team.parent or team, parent):
        if not in_own_right(actor, "manage_team", one):
            raise Forbidden(f"Only who leads {one.slug}, too, or an administrator may do this.")


def _check_prices(team: Team, parent: Team | None) -> None:
    """A move must not change what months that are closed would cost: a team keeps the rate cards
    it inherits."""
    above = teams_above(team)
    then = (parent.pk, *teams_above(parent)) if parent is not None else ()
    cards = RateCard.objects.filter(team__in={*above, *then}, decision=RateDecision.APPROVED)
    priced = set(cards.values_list("team_id", flat=True))
    if [pk for pk in above if pk in priced] != [pk for pk in then if pk in priced]:
        raise Conflict(
            f"{team.slug} would pay other prices there, also for months that are closed: a team "
            "above it has a rate card. Make a new team there instead."
        )


def _check_circle(team: Team, parent: Team) -> None:
    if parent.pk == team.pk:
        raise Invalid(f"{team.slug} cannot be below itself.", field="parent", code="circular_team")
    if parent.pk in teams_below({team.pk}):
        raise Invalid(
            f"{team.slug} cannot be below {parent.slug}, because {parent.slug} is below "
            f"{team.slug}. Move {parent.slug} first.",
            field="parent",
            code="circular_team",
        )


def _check_depth(*, levels_above: int, levels: int) -> None:
    if levels_above + levels > MAX_DEPTH:
        raise Invalid(
            f"This would make {levels_above + levels} levels of teams; at most {MAX_DEPTH} are "
            "allowed. Choose a parent further up.",
            field="parent",
            code="too_many_levels",
        )


@transaction.atomic
def rename_team(*, actor: User, team: Team, name: str, now: datetime | None = None) -> Team:
    """A new display name; the slug stays, because people and programs refer to it. What was
    before `now` keeps the old name in the files of the books."""
    giver = _require_lead(actor, team)
    clean, key, _ = _named(name, team.slug)
    team = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    before = pictured(team, "name")
    try:
        with transaction.atomic():
            if clean != team.name:
                _leave_behind(team, now or timezone.now())
            Team.objects.filter(pk=team.pk).update(name=clean, name_key=key)
    except IntegrityError:
        raise Invalid(_SAME_NAME, field="name") from None
    team.refresh_from_db()
    after = pictured(team, "name")
    record(actor, "team.rename", team, before=before, after=after, on_behalf_of=giver)
    return team


@transaction.atomic
def set_cost_centre(
    *, actor: User, team: Team, code: str, name: str = "", now: datetime | None = None
) -> Team:
    """Charge a team to a cost centre from `now` on; an empty code: to none.

    For who keeps the books. A code that is new is made, a `name` given is the centre's from then
    on. The same again changes nothing. Raises Forbidden, and Invalid by field.
    """
    if not can(actor, "keep_books", None):
        raise Forbidden("Only who keeps the books sets cost centres. Ask finance.")
    centre, called = _centre_of(code, name)
    team = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    before: dict[str, str] = {"cost_centre": team.cost_centre_id or ""}
    after = {"cost_centre": centre}
    if centre:
        row, _ = CostCentre.objects.get_or_create(code=centre)
        if called and called != row.name:
            before["centre_name"], after["centre_name"] = row.name, called
            CostCentre.objects.filter(pk=centre).update(name=called)
    if before == after:
        return team
    if before["cost_centre"] != centre:
        _leave_behind(team, now or timezone.now())
        Team.objects.filter(pk=team.pk).update(cost_centre=centre or None)
    team.refresh_from_db()
    record(actor, "team.cost_centre", team, before=before, after=after, now=now)
    return team


def _centre_of(code: str, name: str) -> tuple[str, str]:
    """Clean code and name, empty where there is none; raises Invalid."""
    centre = code.strip().upper()
    if centre and not _CODE.fullmatch(centre):
        raise Invalid(
            "Use at most 32 letters A-Z, digits, dots, dashes and underscores, a letter or digit "
            "first.",
            field="code",
        )
    if not name.strip():
        return centre, ""
    if not centre:
        raise Invalid("Give the code of the cost centre that is called so.", field="code")
    try:
        return centre, names.clean_name(name)
    except ValueError as error:
        raise Invalid(str(error), field="name") from None


def _leave_behind(team: Team, now: datetime) -> None:
    """Keep what the team was until now; never before what is kept already."""
    last = TeamPast.objects.filter(team=team).order_by("-pk").first()
    TeamPast.objects.create(
        team=team,
        until_at=max(now, last.until_at) if last else now,
        name=team.name,
        cost_centre=team.cost_centre_id or "",
    )


@transaction.atomic
def create_project(
    *, actor: User, team: Team, name: str, slug: str = "", description: str = ""
) -> Project:
    """A new project that this team pays for."""
    giver = _require_lead(actor, team)
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
        same = "The team has a project with this name, or one that looks alike."
        raise _taken(team.projects.all(), key, clean_slug, same) from None
    grant_project(project)
    after = pictured(project, "name", "slug", "description")
    record(actor, "project.create", project, after=after, on_behalf_of=giver)
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
        on_behalf_of=on_behalf_of(actor, "manage_project", project),
    )
    return project


def _require_lead(actor: User, team: Team) -> User | None:
    """In whose place the actor leads the team; None in their own right."""
    if not can(actor, "manage_team", team):
        raise Forbidden("Only a lead of the team may do this.")
    return on_behalf_of(actor, "manage_team", team)
