"""Who acts for whom: one's own delegations, given and held."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden, NotFound
from accounts.models import Delegation, Team, User
from accounts.selectors import delegations_of, get_deputy, get_visible_team
from accounts.services import delegate, end_delegation, require_lender
from portal.forms.people import DelegationForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.states import moment_words

_FIELDS = {"starts_at": "first_day", "ends_at": "last_day"}


@page("GET", "POST")
def delegation_list(request: HttpRequest) -> HttpResponseBase:
    """What the viewer gave and holds; a new one is made here."""
    viewer, now = viewer_of(request), timezone.now()
    form = DelegationForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        made = _made(viewer, form)
        if made is not None:
            who = made.deputy.get_full_name()
            messages.success(request, f"{who} acts for you until {moment_words(made.ends_at)}.")
            return redirect("delegations:list")
    rows = leaf_of(request, delegations_of(viewer), "page").made(
        lambda row: (row, row.ended_early_at is None and row.ends_at > now, row.starts_at <= now)
    )
    return render(request, "people/delegations.html", {"rows": rows, "form": form})


def _made(viewer: User, form: DelegationForm) -> Delegation | None:
    """The new one; a refusal goes to the field it names and returns None."""
    sent = form.cleaned_data
    starts_at, ends_at = form.times(timezone.now())
    try:
        team = _team_of(viewer, sent["team"])
        require_lender(viewer, sent["scope"], team)
        return delegate(
            actor=viewer,
            deputy=get_deputy(viewer, sent["deputy"]),
            scope=sent["scope"],
            team=team,
            starts_at=starts_at,
            ends_at=ends_at,
            reason=sent["reason"],
        )
    except Forbidden:
        raise
    except DomainError as refused:
        field = _FIELDS.get(refused.field, refused.field)
        form.add_error(field if field in form.fields else None, refused.detail)
        return None


def _team_of(viewer: User, slug: str) -> Team | None:
    if not slug:
        return None
    try:
        return get_visible_team(viewer, slug)
    except NotFound as missing:
        raise NotFound(missing.detail, field="team") from None


@page("POST")
def delegation_end(request: HttpRequest, pk: int) -> HttpResponseBase:
    """End one now."""
    viewer = viewer_of(request)
    found = delegations_of(viewer).filter(pk=min(pk, 2**63 - 1)).first()
    if found is None:
        raise NotFound()

    def act() -> str:
        end_delegation(actor=viewer, delegation=found)
        return f"{found.deputy.get_full_name()} no longer acts for {found.giver.get_full_name()}."

    return said_and_back(request, act, "delegations:list")
