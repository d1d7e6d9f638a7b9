"""Teams: who is in them, in which role, and their projects."""

from __future__ import annotations

from typing import Any

from django import forms as django_forms
from django.conf import settings
from django.contrib import messages
from django.core.mail import send_mail
from django.db.models import Count
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from accounts.errors import DomainError, Forbidden, NotFound
from accounts.models import Membership, Role, Team
from accounts.permissions import can
from accounts.selectors import (
    get_visible_project,
    get_visible_team,
    invitations_of,
    members_of,
    parts_of,
    teams_around,
    visible_projects,
    visible_teams,
)
from accounts.services import (
    archive_project,
    change_role,
    create_project,
    create_team,
    invite,
    leave_team,
    remove_member,
    rename_team,
    revoke_invitation,
    set_cost_centre,
)
from portal import limits
from portal.forms.teams import (
    CostCentreForm,
    InviteForm,
    NamedForm,
    ProjectForm,
    RenameForm,
    RoleForm,
    roles_offered,
)
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.serving.once import made_once

_ALREADY = (
    "The invitation was made with this form already, and its link is not shown again. Send the "
    "form once more for another link; the first then ends."
)


@page("GET", "POST")
def team_list(request: HttpRequest) -> HttpResponseBase:
    """The viewer's teams; operators may create one."""
    viewer = viewer_of(request)
    form = NamedForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        made = made_with(form, lambda: create_team(actor=viewer, **form.cleaned_data))
        if made is not None:
            messages.success(request, f"Team {made.name} is there, and you lead it.")
            return redirect("teams:detail", slug=made.slug)
    teams = (
        visible_teams(viewer)
        .select_related("parent")
        .annotate(
            people=Count("memberships", distinct=True),
            project_count=Count("projects", distinct=True),
        )
    )
    part_in = parts_of(viewer)
    context = {
        "teams": leaf_of(request, teams, "page").made(lambda team: (team, part_in(team))),
        "form": form,
        "may_create": can(viewer, "operate", None),
    }
    return render(request, "teams/list.html", context)


@page("GET")
def team_detail(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Members, projects and, for leads, what may be changed."""
    return detail_of(request, get_visible_team(viewer_of(request), slug))


def detail_of(request: HttpRequest, team: Team, **extra: Any) -> HttpResponseBase:
    """The team's page; `extra` holds a form with what is wrong in it, or what was just made."""
    viewer = viewer_of(request)
    members = list(members_of(viewer, team))
    mine = next((m for m in members if m.user_id == viewer.pk), None)
    may_manage, may_operate = can(viewer, "manage_team", team), can(viewer, "operate", None)
    roles = roles_offered(may_operate=may_operate)
    invite_form = extra.pop("invite_form", None) or InviteForm(prefix="invite")
    around = teams_around(viewer, team)
    context = {
        "team": team,
        "above": around.above,
        "below": leaf_of(request, around.below, "below"),
        # Their tokens are on a page of their own.
        "services": leaf_of(request, around.services, "services"),
        "may_serve": can(viewer, "manage_service_accounts", team),
        "parents": around.parents,
        "may_top": team.parent_id and can(viewer, "administer_cluster", None),
        "below_form": extra.pop("below_form", None) or NamedForm(prefix="below"),
        "members": leaf_of(request, members, "members"),
        "mine": mine,
        "projects": leaf_of(request, visible_projects(viewer).filter(team=team), "projects"),
        "invitations": leaf_of(
            request, invitations_of(viewer, team, now=timezone.now()), "invitations"
        ),
        "may_manage": may_manage,
        "may_see_costs": can(viewer, "view_costs", team),
        "changeable": {
            m.user_id
            for m in members
            if m.user_id != viewer.pk and (may_operate or m.role != Role.OPERATOR)
        }
        if may_manage
        else set(),
        "roles": roles,
        "project_form": extra.pop("project_form", None) or ProjectForm(prefix="project"),
        "invite_form": invite_form.offer(roles),
        "rename_form": extra.pop("rename_form", None) or RenameForm({"name": team.name}),
        "may_charge": can(viewer, "keep_books", None),
        "centre_form": extra.pop("centre_form", None)
        or CostCentreForm(prefix="centre", initial={"code": team.cost_centre_id}),
    }
    return render(request, "teams/detail.html", context | extra)


def made_with(form: django_forms.Form, make: Any) -> Any:
    """What `make` returns; a refusal goes to the field it names and returns None."""
    try:
        return make()
    except (NotFound, Forbidden):
        raise
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        return None


@page("POST", back="teams:detail")
def team_rename(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Another name; leads only. The address stays."""
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)
    form = RenameForm(request.POST)
    if form.is_valid():
        renamed = made_with(form, lambda: rename_team(actor=viewer, team=team, **form.cleaned_data))
        if renamed is not None:
            messages.success(request, f"The team is called {renamed.name} now.")
            return redirect("teams:detail", slug=team.slug)
    return detail_of(request, team, rename_form=form)


@page("POST", back="teams:detail")
def team_cost_centre(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Another cost centre, or none; for who keeps the books."""
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)
    form = CostCentreForm(request.POST, prefix="centre")
    if form.is_valid():
        charged = made_with(
            form, lambda: set_cost_centre(actor=viewer, team=team, **form.cleaned_data)
        )
        if charged is not None:
            where = charged.cost_centre_id or "no cost centre"
            messages.success(request, f"{charged.name} is charged to {where} from now on.")
            return redirect("teams:detail", slug=team.slug)
    return detail_of(request, team, centre_form=form)


@page("POST", back="teams:detail")
def team_project_create(request: HttpRequest, slug: str) -> HttpResponseBase:
    """A new project; leads only."""
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)
    form = ProjectForm(request.POST, prefix="project")
    if form.is_valid():
        project = made_with(
            form, lambda: create_project(actor=viewer, team=team, **form.cleaned_data)
        )
        if project is not None:
            messages.success(request, f"Project {team.slug}/{project.slug} takes jobs now.")
            return redirect("teams:detail", slug=team.slug)
    return detail_of(request, team, project_form=form)


@page("POST")
def team_project_archive(request: HttpRequest, slug: str, project: str) -> HttpResponseBase:
    """Archive a project, or take it back."""
    viewer = viewer_of(request)
    found = get_visible_project(viewer, f"{slug}/{project}")
    is_archived = request.POST.get("archived") == "true"

    def act() -> str:
        archive_project(actor=viewer, project=found, archived=is_archived)
        return f"{found.path} is archived." if is_archived else f"{found.path} takes jobs again."

    return said_and_back(request, act, "teams:detail", slug=slug)


@never_cache
@page("POST", back="teams:detail")
def team_invite(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Invite by mail; the link is also shown once, for sites without mail."""
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)
    form = InviteForm(request.POST, prefix="invite")
    if form.is_valid():
        limits.count(limits.INVITE, viewer.pk)
        given = {"actor": viewer, "team": team, **form.cleaned_data}
        made = made_with(form, lambda: made_once(request, _ALREADY, invite, **given))
        if made is not None:
            invitation, secret = made
            link = settings.PUBLIC_URL + reverse("invitation", kwargs={"secret": secret})
            body = render_to_string(
                "emails/invitation.txt", {"team": team, "viewer": viewer, "link": link}
            )
            sent = send_mail(
                f"Trainyard: join {team.slug}", body, None, [invitation.email], fail_silently=True
            )
            return detail_of(request, team, invited=invitation, link=link, is_mailed=bool(sent))
    return detail_of(request, team, invite_form=form)


@page("POST")
def team_invitation_revoke(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """Withdraw an invitation."""
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)
    found = invitations_of(viewer, team).filter(pk=pk).first()
    if found is None:
        raise NotFound()

    def act() -> str:
        revoke_invitation(actor=viewer, invitation=found)
        return f"The invitation of {found.email} is withdrawn."

    return said_and_back(request, act, "teams:detail", slug=slug)


def _member(request: HttpRequest, slug: str, pk: int) -> Membership:
    viewer = viewer_of(request)
    found = members_of(viewer, get_visible_team(viewer, slug)).filter(pk=pk).first()
    if found is None:
        raise NotFound()
    return found


@page("POST")
def team_role(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """Give a member another role."""
    member = _member(request, slug, pk)
    form = RoleForm(request.POST)

    def act() -> str:
        role = form.cleaned_data["role"] if form.is_valid() else ""
        change_role(actor=viewer_of(request), team=member.team, user=member.user, role=role)
        return f"{member.user.get_full_name()} is {role} now."

    return said_and_back(request, act, "teams:detail", slug=slug)


@page("POST")
def team_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """Take somebody out of the team."""
    member = _member(request, slug, pk)

    def act() -> str:
        remove_member(actor=viewer_of(request), team=member.team, user=member.user)
        return f"{member.user.get_full_name()} is out of the team; access has ended."

    return said_and_back(request, act, "teams:detail", slug=slug)


@page("POST")
def team_leave(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Leave a team oneself."""
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)

    def act() -> str:
        leave_team(actor=viewer, team=team)
        return f"You have left {team.name}."

    return said_and_back(request, act, "teams:list")
