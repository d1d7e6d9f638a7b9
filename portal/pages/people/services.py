"""A team's accounts of programs and their tokens."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from accounts.errors import NotFound
from accounts.models import ApiToken, Team, User
from accounts.permissions import can
from accounts.selectors import get_visible_team, service_accounts_of
from accounts.services import (
    end_service_account,
    issue_service_token,
    make_service_account,
    revoke_service_token,
)
from portal.forms.people import ServiceForm, ServiceTokenForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import Leaf, leaf_of
from portal.pages.people.tokens import ALREADY
from portal.pages.signing.again import asks_password
from portal.pages.teams import made_with
from portal.serving.once import made_once

TOKENS_SHOWN = 30


@page("GET", "POST")
def team_services(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The list, and a new one; leads make and end them, members see them."""
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)
    form = ServiceForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        made = made_with(
            form, lambda: make_service_account(actor=viewer, team=team, **form.cleaned_data)
        )
        if made is not None:
            messages.success(request, f"{made.username} is there; make it a token.")
            return redirect("teams:services", slug=slug)
    return _page(request, team, form=form)


def _page(request: HttpRequest, team: Team, **extra: Any) -> HttpResponseBase:
    viewer = viewer_of(request)
    context = {
        "team": team,
        "accounts": leaf_of(request, service_accounts_of(viewer, team), "page", size=20).made(
            lambda account: (account, _tokens(request, account))
        ),
        "may_manage": can(viewer, "manage_service_accounts", team),
        "form": ServiceForm(),
        "token_form": ServiceTokenForm(),
        "now": timezone.now(),
    }
    return render(request, "people/services.html", context | extra)


def _tokens(request: HttpRequest, account: User) -> Leaf:
    """Those of one account, which came along with it, a part at a time."""
    return leaf_of(request, account.api_tokens.all(), f"tokens-{account.pk}", size=TOKENS_SHOWN)


def _account(request: HttpRequest, slug: str, pk: int) -> tuple[Team, User]:
    viewer = viewer_of(request)
    team = get_visible_team(viewer, slug)
    found = service_accounts_of(viewer, team).filter(pk=min(pk, 2**63 - 1)).first()
    if found is None:
        raise NotFound()
    return team, found


@never_cache
@page("POST", back="teams:services")
@asks_password
def service_token(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """A new token; its secret is in this answer and never again."""
    viewer = viewer_of(request)
    team, account = _account(request, slug, pk)
    form, secret = ServiceTokenForm(request.POST), ""
    if form.is_valid():
        whose = {"actor": viewer, "account": account}
        made = made_with(
            form,
            lambda: made_once(
                request, ALREADY, issue_service_token, **whose, **form.bounds(viewer)
            ),
        )
        secret = made[1] if made else ""
    shown = ServiceTokenForm() if secret else form
    return _page(request, team, token_form=shown, token_for=account, secret=secret)


@page("POST")
def service_end(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """End an account with all its tokens."""
    _, account = _account(request, slug, pk)

    def act() -> str:
        end_service_account(actor=viewer_of(request), account=account)
        return f"{account.username} has ended, and its tokens with it."

    return said_and_back(request, act, "teams:services", slug=slug)


@page("POST")
def service_revoke(request: HttpRequest, slug: str, pk: int, token: int) -> HttpResponseBase:
    """End one token."""
    _, account = _account(request, slug, pk)
    found: ApiToken | None = account.api_tokens.filter(pk=min(token, 2**63 - 1)).first()
    if found is None:
        raise NotFound()

    def act() -> str:
        revoke_service_token(actor=viewer_of(request), token=found)
        return f"Token {found.prefix}… has ended."

    return said_and_back(request, act, "teams:services", slug=slug)
