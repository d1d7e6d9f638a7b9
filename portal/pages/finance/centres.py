"""Cost centres and the teams charged to them; a team's own page changes its centre."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from accounts.permissions import can
from accounts.selectors.cost_centres import cost_centres
from portal.pages.access import page, viewer_of
from portal.pages.listing.leaves import leaf_of

_NAMED = 30


@page("GET")
def centre_list(request: HttpRequest) -> HttpResponseBase:
    """By code, and last the teams without one; of many teams the first by name."""
    viewer = viewer_of(request)
    centres = leaf_of(request, cost_centres(viewer), "page", size=50).made(
        lambda centre: (centre, centre.teams[:_NAMED], len(centre.teams[_NAMED:]))
    )
    context = {"centres": centres, "may_act": can(viewer, "keep_books", None)}
    return render(request, "finance/centres.html", context)
