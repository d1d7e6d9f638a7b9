"""Cost centres and the teams charged to them; a team's own page changes its centre."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from accounts.permissions import can
from accounts.selectors.cost_centres import cost_centres
from portal.pages.access import page, viewer_of


@page("GET")
def centre_list(request: HttpRequest) -> HttpResponseBase:
    """By code, and last the teams without one."""
    viewer = viewer_of(request)
    centres = cost_centres(viewer)
    context = {"centres": centres, "may_act": can(viewer, "keep_books", None)}
    return render(request, "finance/centres.html", context)
