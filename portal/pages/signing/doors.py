"""The addresses of signing in elsewhere: there and back, linking, and showing again who one is.

What speaks to the provider is imported by who needs it: most servers have none.
"""

from __future__ import annotations

import time
from typing import Any

from allauth.account.views import ReauthenticateView, password_set
from allauth.core.exceptions import ImmediateHttpResponse
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from accounts.services.identities.linking import unlink_identity
from accounts.services.identities.reading import signs_in_elsewhere
from portal import limits
from portal.pages.access import page, said_and_back, takes, viewer_of
from portal.pages.errors import too_fast
from portal.pages.signing.again import asks_password


@never_cache
@takes("POST")
def elsewhere(request: HttpRequest) -> HttpResponseBase:
    """To the provider, to sign in; `next` is one of our own pages, `invitation` a secret."""
    _there_is_one()
    if wait_s := limits.wait_s(limits.ELSEWHERE, "sign_in"):
        return too_fast(request, wait_s)
    from portal.pages.signing.elsewhere import ENTER, begin

    invitation = request.POST.get("invitation", "")[:100]
    try:
        return begin(request, ENTER, back=_back(request), invitation=invitation)
    except ImmediateHttpResponse as ended:
        return ended.response


@never_cache
@takes("GET")
def elsewhere_back(request: HttpRequest) -> HttpResponseBase:
    """Back from the provider, with its answer or with an error."""
    _there_is_one()
    from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView

    from portal.pages.signing.elsewhere import refuse
    from portal.pages.signing.provider import Endpoints

    try:
        if request.GET.get("iss", settings.OIDC_ISSUER) != settings.OIDC_ISSUER:
            name = settings.OIDC_NAME
            refuse(request, f"This answer is not from {name}.", "Begin again at the sign-in page.")
        view = OAuth2CallbackView.adapter_view(Endpoints(request, settings.OIDC_ISSUER))
        return view(request)
    except ImmediateHttpResponse as ended:
        return ended.response


@page("POST", back="profile")
@asks_password
def identity_link(request: HttpRequest) -> HttpResponseBase:
    """To the provider, to be linked to who one is there."""
    viewer_of(request)
    _there_is_one()
    limits.count(limits.ELSEWHERE, request.user.pk)
    from portal.pages.signing.elsewhere import LINK, begin

    try:
        return begin(request, LINK)
    except ImmediateHttpResponse as ended:
        return ended.response


@page("POST", back="profile")
@asks_password
def identity_unlink(request: HttpRequest) -> HttpResponseBase:
    """Sign in by the password alone again."""
    _there_is_one()

    def act() -> str:
        unlink_identity(actor=viewer_of(request))
        return f"You no longer sign in with {settings.OIDC_NAME}."

    return said_and_back(request, act, "profile")


@page("POST", back="account_reauthenticate")
def elsewhere_again(request: HttpRequest) -> HttpResponseBase:
    """To the provider, which asks again who one is; then on with what was sent."""
    _there_is_one()
    limits.count(limits.ELSEWHERE, viewer_of(request).pk)
    from portal.pages.signing.elsewhere import AGAIN, begin

    try:
        return begin(request, AGAIN, back=_back(request), began_at=int(time.time()))
    except ImmediateHttpResponse as ended:
        return ended.response


@page("GET", "POST")
def reauthenticate(request: HttpRequest) -> HttpResponseBase:
    """Who one is, again: by the password, or at the provider."""
    viewer = viewer_of(request)
    can_go = signs_in_elsewhere(viewer)
    context: dict[str, Any] = {
        "provider_name": settings.OIDC_NAME if can_go else "",
        "redirect_field_name": "next",
        "redirect_field_value": request.GET.get("next", ""),
    }
    if can_go and not viewer.has_usable_password():
        return render(request, "account/reauthenticate.html", context)
    if not viewer.has_usable_password():
        raise PermissionDenied("You have no password here, so nobody asks for it.")
    more = {"provider_name": context["provider_name"]}
    return ReauthenticateView.as_view(extra_context=more)(request)


@page("GET", "POST")
def set_password(request: HttpRequest) -> HttpResponse:
    """A first password, for who has none and signs in nowhere else."""
    if signs_in_elsewhere(viewer_of(request)):
        messages.info(request, f"You sign in with {settings.OIDC_NAME}, and need no password here.")
        return redirect("profile")
    return password_set(request)


def offered(request: HttpRequest) -> dict[str, Any]:
    """What a page needs that offers it: the provider's name, empty where there is none."""
    there_is = bool(settings.OIDC_ISSUER)
    return {
        "provider_name": settings.OIDC_NAME if there_is else "",
        "passwords_for_all": not there_is or settings.OIDC_PASSWORDS == "everyone",
    }


def _there_is_one() -> None:
    if not settings.OIDC_ISSUER:
        raise Http404


def _back(request: HttpRequest) -> str:
    """One of our own pages, or none."""
    there = request.POST.get("next", "")[:2000]
    is_ours = there.startswith("/") and url_has_allowed_host_and_scheme(there, allowed_hosts=None)
    return there if is_ours else ""
