"""An administrator chooses a role to see the portal as; and ends that."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import Invalid, NotFound
from accounts.models import OrganisationRole, Role
from accounts.permissions import can
from accounts.selectors import get_visible_team, visible_teams
from accounts.services import begin_preview
from portal.forms.labels import as_words
from portal.pages.access import page, viewer_of
from portal.previews import LASTS, start_preview, stop_preview

_WORDS = {
    Role.MEMBER: "submits jobs, reads logs and costs of the team's projects",
    Role.LEAD: "also manages members, projects and the team's quota",
    Role.FINANCE: "sees what the team spends; no logs, no code",
    Role.OPERATOR: "a member who also runs the cluster",
}
_OF_ALL = {
    OrganisationRole.FINANCE: "keeps the books of everybody; no logs, no code",
    OrganisationRole.OPERATOR: "runs nodes, queues and limits; no money",
    OrganisationRole.AUDITOR: "reads the audit, the ledger and settings; changes nothing",
}
_SHOWN_TEAMS = 500


@page("GET", "POST")
def preview(request: HttpRequest) -> HttpResponseBase:
    """For administrators; does not exist for others."""
    viewer = viewer_of(request)
    if not can(viewer, "administer_cluster", None):
        raise NotFound()
    if request.method == "POST":
        slug, until = request.POST.get("team", ""), timezone.now() + LASTS
        if other := request.POST.get("other", "").strip():
            # Typed, so it may be wrong: said beside the form, which stays.
            slug = other[:100]
            if not visible_teams(viewer).filter(slug=slug).exists():
                messages.error(request, f"Another team: there is no team {slug}.")
                return redirect("preview")
        team = get_visible_team(viewer, slug) if slug else None
        role = request.POST.get("role", "")
        try:
            begun = begin_preview(actor=viewer, role=role, team=team, until=until)
        except Invalid as refused:
            messages.error(request, f"{as_words(refused.field)}: {refused.detail}")
            return redirect("preview")
        start_preview(request, begun)
        return redirect("home")
    teams = list(visible_teams(viewer).order_by("name")[: _SHOWN_TEAMS + 1])
    context = {
        "roles": [(role.value, role.label, words) for role, words in _WORDS.items()],
        "roles_of_all": [(role.value, role.label, words) for role, words in _OF_ALL.items()],
        "teams": teams[:_SHOWN_TEAMS],
        "most": _SHOWN_TEAMS if len(teams) > _SHOWN_TEAMS else 0,
        "minutes": int(LASTS.total_seconds() // 60),
    }
    return render(request, "previewing/choose.html", context)


@page("POST")
def preview_end(request: HttpRequest) -> HttpResponseBase:
    """The button of the banner."""
    if viewer_of(request).is_preview:
        stop_preview(request, "by click")
        messages.success(request, "The preview has ended; this is your own view again.")
    return redirect("home")
