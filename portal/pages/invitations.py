"""Accepting an invitation, as a new person or as one who is signed in."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from accounts.errors import DomainError, NotFound
from accounts.selectors import get_open_invitation
from accounts.services import accept_invitation
from portal.forms.teams import JoinForm
from portal.pages.access import takes
from portal.pages.signing.doors import offered

_BACKEND = "accounts.adapter.PersonBackend"


@never_cache
@takes("GET", "POST")
def invitation_accept(request: HttpRequest, secret: str) -> HttpResponse:
    """The link of an invitation; 404 once it is used, withdrawn or expired."""
    try:
        invitation = get_open_invitation(secret)
    except NotFound:
        raise Http404 from None
    signed_in = request.user if request.user.is_authenticated else None
    ways = offered(request)
    form = JoinForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and not (signed_in or ways["passwords_for_all"]):
        raise PermissionDenied(f"New people come in with {ways['provider_name']}.")
    if request.method == "POST" and (signed_in or form.is_valid()):
        given = {} if signed_in else form.cleaned_data
        try:
            there = (
                invitation.team.memberships.filter(user=signed_in).first() if signed_in else None
            )
            user = accept_invitation(secret=secret, user=signed_in, **given)
        except NotFound:
            raise Http404 from None
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            if signed_in is None:
                login(request, user, backend=_BACKEND)
            words = f"Welcome to {invitation.team.name}."
            if there is not None:
                role = there.get_role_display().lower()
                words = f"You were in {invitation.team.name} already, as {role}; that stays."
            messages.success(request, words)
            return redirect("home")
    context = {"invitation": invitation, "form": form, "signed_in": signed_in}
    context |= {**ways, "secret": secret}
    return render(request, "teams/invitation.html", context)
