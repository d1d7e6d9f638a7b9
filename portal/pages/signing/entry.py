"""Signing in: allauth's page behind our limit of attempts."""

from __future__ import annotations

from allauth.account.views import login
from django.http import HttpRequest, HttpResponseBase

from portal import limits
from portal.pages.errors import too_fast

_MOST_CHARS = 150


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Attempts are counted by the name that was typed, whether there is such a person or not."""
    if request.method == "POST":
        name = request.POST.get("login", "").strip().casefold()[:_MOST_CHARS]
        if wait_s := limits.wait_s(limits.SIGN_IN, name):
            return too_fast(request, wait_s)
    return login(request)
