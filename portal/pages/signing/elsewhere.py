"""What follows when the identity provider has said who somebody is, or has not.

1. allauth has checked state, token and signature, and looked the account up by issuer and subject.
2. Whoever came to sign in is found or made, given what their groups give, and let in by allauth.
3. Whoever came to link, or to show again who they are, is the one who began it, or nothing happens.
4. What went wrong is a page that says what to do; the log has the provider's own words.
"""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import requests
from allauth.account.internal.flows.login import record_authentication
from allauth.account.internal.flows.reauthentication import resume_request
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.http import urlencode

from accounts.errors import DomainError, NotFound
from accounts.models import User
from accounts.services.identities.entering import enter
from accounts.services.identities.linking import link_identity
from portal.pages.signing.calling import Calls
from portal.pages.signing.provider import Provider, app_of_settings

logger = logging.getLogger(__name__)

ENTER, LINK, AGAIN = "enter", "link", "again"
# Clocks differ by so much.
_SLACK_S = 60
_GOES_ON = "Signing in with a password, for those who have one, goes on meanwhile."


class Adapter(DefaultSocialAccountAdapter):
    """One provider, that of the settings; accounts by our own rules."""

    def list_apps(
        self, request: HttpRequest, provider: Any = None, client_id: Any = None
    ) -> list[SocialApp]:
        """The one of the settings, or none; tables are not asked."""
        return [app_of_settings()] if settings.OIDC_ISSUER else []

    def get_provider(self, request: HttpRequest, provider: Any, client_id: Any = None) -> Provider:
        """The one of the settings."""
        return Provider(request, app=app_of_settings())

    def get_requests_session(self) -> requests.Session:
        """For every call to the provider."""
        return Calls(settings.OIDC_ISSUER, settings.OIDC_CA)

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """Never by allauth's own forms."""
        return False

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Do what they came for; raises ImmediateHttpResponse unless it is to sign in."""
        asked: dict[str, Any] = sociallogin.state.get("data") or {}
        back = str(sociallogin.state.get("next") or "")
        if asked.get("do") == LINK:
            raise ImmediateHttpResponse(_linked(request, sociallogin, asked))
        if asked.get("do") == AGAIN:
            raise ImmediateHttpResponse(_shown_again(request, sociallogin, asked, back))
        try:
            account, left = enter(
                claims=sociallogin.claims, invitation=str(asked.get("invitation") or "")
            )
        except NotFound:
            refuse(request, "This invitation is no longer open.", "Ask who sent it for another.")
        except DomainError as refused:
            refuse(request, refused.detail, "")
        sociallogin.user, sociallogin.account = account.user, account
        _say_left(request, left)

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> NoReturn:
        """A page in our words for whatever the provider, or somebody else, sent back."""
        name = settings.OIDC_NAME
        if error == AuthError.CANCELLED:
            refuse(request, f"{name} was told not to let you in here.", "Try again and agree.")
        if exception is None and "state_id" in (extra_context or {}):
            refuse(
                request,
                "This answer belongs to no sign-in that began in this browser within ten minutes.",
                f"Begin again here, at {settings.PUBLIC_URL}, and let the browser keep cookies.",
            )
        if exception is None:
            told = f"{request.GET.get('error', '')} {request.GET.get('error_description', '')}"
            logger.warning("the identity provider refused: %.300r", told)
            refuse(
                request,
                f"{name} could not sign you in.",
                "Try again; if it stays so, ask an administrator, who finds its words in the log.",
            )
        refuse_answer(request, exception)


def refuse_answer(request: HttpRequest, error: Exception) -> NoReturn:
    """A provider that does not answer, or not as it should; its words go to the log."""
    name = settings.OIDC_NAME
    logger.warning("the identity provider: %s: %.500s", type(error).__name__, error)
    if isinstance(error, requests.RequestException):
        words = f"{name} does not answer just now."
        refuse(request, words, f"Try again in a minute. {_GOES_ON}", status=503)
    refuse(
        request,
        f"What {name} answered cannot be trusted, so nobody was signed in.",
        "Try again; if it stays so, ask an administrator, who finds the reason in the log. "
        + _GOES_ON,
        status=502,
    )


def refuse(request: HttpRequest, words: str, remedy: str, *, status: int = 403) -> NoReturn:
    """End it here with a page that says why and what to do."""
    context = {"words": words, "remedy": remedy, "provider_name": settings.OIDC_NAME}
    page = render(request, "account/elsewhere_refused.html", context, status=status)
    raise ImmediateHttpResponse(page)


def begin(
    request: HttpRequest, do: str, *, back: str = "", invitation: str = "", began_at: int = 0
) -> HttpResponse:
    """The page that leads to the provider; raises ImmediateHttpResponse where it is away.

    Browsers ask the policy of a page about every address that a form's answer leads to, and where
    a provider leads on to is its own affair: so this is a page, not a redirect.
    """
    asked = {"do": do, "invitation": invitation, "user": request.user.pk, "began_at": began_at}
    again = {"prompt": "login", "max_age": "0"} if do == AGAIN else {}
    provider = Provider(request, app=app_of_settings())
    try:
        there = provider.redirect(
            request, "login", next_url=back or None, data=asked, auth_params=again
        ).url
    except (OAuth2Error, requests.RequestException) as error:
        refuse_answer(request, error)
    context = {"there": there, "provider_name": settings.OIDC_NAME}
    page = render(request, "account/elsewhere.html", context)
    page["Refresh"] = f"0; url={there}"
    page["Cache-Control"] = "no-store"
    return page


def _linked(request: HttpRequest, login: SocialLogin, asked: dict[str, Any]) -> HttpResponse:
    person = _who_began(request, asked)
    try:
        left = link_identity(actor=person, claims=login.claims)
    except DomainError as refused:
        refuse(request, refused.detail, "")
    messages.success(request, f"You sign in with {settings.OIDC_NAME} from now on, too.")
    _say_left(request, left)
    return redirect("profile")


def _shown_again(
    request: HttpRequest, login: SocialLogin, asked: dict[str, Any], back: str
) -> HttpResponse:
    person, name = _who_began(request, asked), settings.OIDC_NAME
    if login.user is None or login.user.pk != person.pk:
        refuse(
            request,
            f"{name} says that you are somebody else than {person.username}.",
            "Nothing was done. Sign in there as yourself and try again.",
        )
    if login.seen_at is not None and login.seen_at < asked["began_at"] - _SLACK_S:
        refuse(
            request,
            f"{name} did not ask again who you are.",
            "Nothing was done. Sign out there, or sign out here and in again, and try again.",
        )
    more = {"provider": login.account.provider, "reauthenticated": True}
    record_authentication(request, person, "socialaccount", **more)
    request.GET = QueryDict(urlencode({"next": back}))
    return resume_request(request) or redirect("home")


def _who_began(request: HttpRequest, asked: dict[str, Any]) -> User:
    person = request.user
    if not isinstance(person, User) or person.pk != asked.get("user"):
        refuse(
            request,
            "Who began this is not signed in here any more.",
            "Nothing was done. Sign in and begin again.",
        )
    return person


def _say_left(request: HttpRequest, left: list[str]) -> None:
    for words in left:
        messages.warning(request, f"Your groups could not change everything. {words}")
