"""A person's API tokens."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from accounts.errors import DomainError, NotFound
from accounts.selectors import tokens_of
from accounts.services import issue_token, revoke_token
from portal.forms.tokens import TokenForm
from portal.pages.access import page, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.pages.signing.again import asks_password
from portal.serving.once import made_once

ALREADY = (
    "A token was made with this form already, and it is not shown again. If you do not have it, "
    "revoke it and create another."
)


@never_cache
@page("GET", "POST")
@asks_password
def token_list(request: HttpRequest) -> HttpResponseBase:
    """The list, and a new token; its secret is in the answer to the POST and never again."""
    viewer = viewer_of(request)
    form = TokenForm(request.POST if request.method == "POST" else None)
    secret = ""
    if request.method == "POST" and form.is_valid():
        try:
            bounds = form.bounds(viewer)
            _, secret = made_once(request, ALREADY, issue_token, actor=viewer, **bounds)
            form = TokenForm()
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
    context = {
        "tokens": leaf_of(request, tokens_of(viewer), "page"),
        "form": form,
        "secret": secret,
        "now": timezone.now(),
    }
    return render(request, "tokens/list.html", context)


@page("POST")
def token_revoke(request: HttpRequest, pk: int) -> HttpResponseBase:
    """End a token at once."""
    viewer = viewer_of(request)
    token = tokens_of(viewer).filter(pk=pk).first()
    if token is None:
        raise NotFound()
    revoke_token(actor=viewer, token=token)
    messages.success(request, f"Token {token.prefix}… has ended.")
    return redirect("tokens:list")
