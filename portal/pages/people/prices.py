"""What a team pays for a GPU-hour, beside the list."""

from __future__ import annotations

from datetime import UTC

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from portal.pages.access import page, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.conf import load_conf
from scheduler.selectors.books.prices.team import prices_of_team


@page("GET")
def team_prices(request: HttpRequest, slug: str) -> HttpResponseBase:
    """For who sees the team's costs; others are not told that it is there."""
    now = timezone.now()
    team, prices = prices_of_team(viewer_of(request), slug, now=now)
    shown = leaf_of(request, prices, "page")
    context = {"team": team, "prices": shown, "currency": load_conf().currency, "now": now}
    context["may_see_costs"] = True
    with timezone.override(UTC):  # as all that is about money
        return render(request, "teams/prices.html", context)
