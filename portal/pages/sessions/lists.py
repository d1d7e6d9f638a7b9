"""Sessions of the viewer and of others."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.selectors import submittable_projects
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.pages.listing.tails import tail_of
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from scheduler.models import Session
from scheduler.selectors.sessions import session_cards, visible_sessions
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, WAITING_JOB_STATES

OPEN_SHOWN, ENDED_SHOWN = 30, 12


@page("GET")
def session_list(request: HttpRequest) -> HttpResponseBase:
    """Cards: what runs or waits first, then what ended lately. `?part=live` is the cards alone."""
    viewer, now = viewer_of(request), timezone.now()
    if opened := opened_in_scope(request, viewer):
        return opened
    problems: list[str] = []
    scope = scope_here(request, viewer, problems)
    every = visible_sessions(viewer).filter(scope.part_of("job__project"))
    mine = every.filter(job__owner=viewer, job__state__in=FINAL_JOB_STATES)

    def read(before: int | None, most: int) -> Iterable[Session]:
        return (mine.filter(pk__lt=before) if before else mine)[:most]

    ended = tail_of(request, read, size=ENDED_SHOWN)
    # Said by the states that there are: an index has those jobs, few among all that ever were.
    is_open = list(every.filter(job__state__in=LIVE_JOB_STATES | WAITING_JOB_STATES))
    own, others = (
        leaf_of(
            request,
            [one for one in is_open if (one.job.owner_id == viewer.pk) is is_own],
            name,
            size=OPEN_SHOWN,
        )
        for is_own, name in ((True, "mine"), (False, "page"))
    )
    shown = session_cards(viewer, [*own, *others, *ended], now=now)
    cards = {card.session.pk: card for card in shown}
    context = {
        "cards": own.made(lambda one: cards[one.pk]),
        "ended": ended.made(lambda one: cards[one.pk]),
        "others": others.made(lambda one: cards[one.pk]),
        "may_start": submittable_projects(viewer).exists(),
        "unknown": unknown_parameters(request.GET, ("part", "scope", "older", "page", "mine")),
        "problems": problems,
        "now": now,
    }
    template = "sessions/list.html"
    return render(request, f"{template}#live" if request.GET.get("part") else template, context)
