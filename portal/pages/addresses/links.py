"""Where the links of letters about mail addresses lead: whoever has one may follow it."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from accounts.errors import DomainError, NotFound
from accounts.selectors.addresses import get_confirmable, get_undoable
from accounts.services.addresses.changing import confirm_address, may_confirm, undo_address
from portal.pages.access import takes


@never_cache
@takes("GET", "POST")
def address_confirm(request: HttpRequest, secret: str) -> HttpResponseBase:
    """The link to a new address: a button, and then it is theirs; 404 once it is used or over."""
    viewer = request.user if request.user.is_authenticated else None
    problem, is_done = "", False
    try:
        change = get_confirmable(secret)
        if request.method == "POST" and may_confirm(change, viewer):
            change = confirm_address(secret=secret, viewer=viewer)
            is_done = True
    except NotFound:
        raise Http404 from None
    except DomainError as refused:
        problem = refused.detail
    if is_done and viewer is not None and viewer.pk == change.user_id:
        messages.success(request, f"Your mail address is {change.new_email} now.")
        return redirect("profile")
    context = {
        "change": change,
        "is_done": is_done,
        "problem": problem,
        "may": may_confirm(change, viewer),
    }
    return render(request, "addresses/confirm.html", context, status=409 if problem else 200)


@never_cache
@takes("GET", "POST")
def address_undo(request: HttpRequest, secret: str) -> HttpResponseBase:
    """The link to an old address: a button, and then it is that again; 404 as well."""
    problem, is_done = "", False
    try:
        change = get_undoable(secret)
        if request.method == "POST":
            change = undo_address(secret=secret)
            is_done = True
    except NotFound:
        raise Http404 from None
    except DomainError as refused:
        problem = refused.detail
    context = {
        "change": change,
        "is_done": is_done,
        "problem": problem,
        "has_password": change.user.has_usable_password(),
    }
    return render(request, "addresses/undo.html", context, status=409 if problem else 200)
