"""Signing in: allauth's page behind our limit of attempts, with the way in from elsewhere."""

from __future__ import annotations

from allauth.account.views import LoginView
from django.http import HttpRequest, HttpResponseBase

from portal import limits
from portal.pages.errors import too_fast
from portal.pages.signing.doors import offered

_MOST_CHARS = 150


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Attempts are counted by the name that was typed, whether there is such a person or not."""
    if request.method == "POST":
        name = request.POST.get("login", "").strip().casefold()[:_MOST_CHARS]
        if wait_s := limits.wait_s(limits.SIGN_IN, name):
            return too_fast(request, wait_s)
    return LoginView.as_view(extra_context=offered(request))(request)
