"""Sessions of the viewer and of others."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.selectors import submittable_projects
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from scheduler.selectors.sessions import session_cards, visible_sessions
from scheduler.states import FINAL_JOB_STATES

SHOWN = 60


@page("GET")
def session_list(request: HttpRequest) -> HttpResponseBase:
    """Cards: what runs or waits first, then what ended lately. `?part=live` is the cards alone."""
    viewer, now = viewer_of(request), timezone.now()
    if opened := opened_in_scope(request, viewer):
        return opened
    problems: list[str] = []
    scope = scope_here(request, viewer, problems)
    found = list(visible_sessions(viewer).filter(scope.part_of("job__project"))[:SHOWN])
    cards = session_cards(viewer, found, now=now)
    mine = [card for card in cards if card.session.job.owner_id == viewer.pk]
    open_cards = [card for card in mine if card.state not in FINAL_JOB_STATES]
    context = {
        "cards": open_cards,
        "ended": [card for card in mine if card.state in FINAL_JOB_STATES][:12],
        "others": [
            card
            for card in cards
            if card.session.job.owner_id != viewer.pk and card.state not in FINAL_JOB_STATES
        ],
        "may_start": submittable_projects(viewer).exists(),
        "unknown": unknown_parameters(request.GET, ("part", "scope")),
        "problems": problems,
        "now": now,
    }
    template = "sessions/list.html"
    return render(request, f"{template}#live" if request.GET.get("part") else template, context)
