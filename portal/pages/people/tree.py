"""Teams below teams: a new one, and moving one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect

from accounts.selectors import get_visible_team
from accounts.services import create_team
from portal.forms.teams import NamedForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.teams import detail_of, made_with
from scheduler.services.teams import move_team


@page("POST", back="teams:detail")
def team_below(request: HttpRequest, slug: str) -> HttpResponseBase:
    """A new team below this one; for who leads this one."""
    viewer = viewer_of(request)
    parent = get_visible_team(viewer, slug)
    form = NamedForm(request.POST, prefix="below")
    if form.is_valid():
        made = made_with(
            form, lambda: create_team(actor=viewer, parent=parent, **form.cleaned_data)
        )
        if made is not None:
            messages.success(request, f"Team {made.name} is there, below {parent.slug}.")
            return redirect("teams:detail", slug=made.slug)
    return detail_of(request, parent, below_form=form)


@page("POST")
def team_move(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Below another team, or to the top."""
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)
    above = request.POST.get("parent", "")[:63]
    parent = get_visible_team(viewer, above) if above else None

    def act() -> str:
        move_team(actor=viewer, team=team, parent=parent)
        return f"{team.name} is {f'below {above}' if above else 'at the top'} now."

    return said_and_back(request, act, "teams:detail", slug=slug)
