"""Enrolling a node: a single-use token, what to type on the machine, and which tokens are open."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from accounts.errors import DomainError, Forbidden, NotFound
from accounts.permissions import can
from portal.forms.cluster.nodes import EnrolForm, PoolForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.serving.once import made_once
from scheduler.selectors.cluster import (
    get_visible_node_token,
    get_visible_pool,
    open_node_tokens,
    visible_pools,
)
from scheduler.services.nodes import (
    create_pool,
    enrol_line,
    issue_node_token,
    require_operator,
    revoke_node_token,
)

_ALREADY = (
    "A token was made with this form already, and it is not shown again. If you do not have it, "
    "revoke it below and make another."
)


@never_cache
@page("GET", "POST")
def node_enrol(request: HttpRequest) -> HttpResponseBase:
    """For operators. The token is shown in the answer to the POST, and never again: a reload, which
    sends the form once more, makes no other."""
    viewer = viewer_of(request)
    if not can(viewer, "operate", None):
        raise Forbidden("Only operators enrol nodes.")
    if request.method == "POST" and "new_pool" in request.POST:
        return _new_pool(request)
    pools = _pool_names(request)
    form = EnrolForm(request.POST if request.method == "POST" else None, pools=pools)
    made: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        try:
            pool = get_visible_pool(viewer, form.cleaned_data["pool"])
            minutes = form.cleaned_data["minutes"]
            token, secret = made_once(
                request, _ALREADY, issue_node_token, actor=viewer, pool=pool, minutes=minutes
            )
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            made = {"token": token, "line": enrol_line(secret), "pool": pool}
    return _shown(request, form=form, pool_form=PoolForm(prefix="pool"), pools=pools, **made)


@page("POST")
def token_revoke(request: HttpRequest, pk: int) -> HttpResponseBase:
    """End an enrolment token that nobody has used."""
    viewer = viewer_of(request)
    require_operator(viewer)
    token = get_visible_node_token(viewer, pk)

    def act() -> str:
        revoke_node_token(actor=viewer, token=token)
        return f"The token for pool {token.pool.name} is revoked; nobody can enrol with it."

    return said_and_back(request, act, "nodes:enrol")


def _pool_names(request: HttpRequest) -> list[str]:
    return list(visible_pools(viewer_of(request)).values_list("name", flat=True))


def _shown(request: HttpRequest, **context: Any) -> HttpResponseBase:
    now = timezone.now()
    waiting = leaf_of(request, open_node_tokens(viewer_of(request), now=now), "page")
    return render(request, "nodes/enrol.html", {**context, "open_tokens": waiting, "now": now})


def _new_pool(request: HttpRequest) -> HttpResponseBase:
    viewer = viewer_of(request)
    form = PoolForm(request.POST, prefix="pool")
    if form.is_valid():
        try:
            pool = create_pool(actor=viewer, **form.cleaned_data)
        except (NotFound, Forbidden):
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            messages.success(request, f"Pool {pool.name} is there; enrol its first node.")
            return redirect("nodes:enrol")
    pools = _pool_names(request)
    return _shown(request, form=EnrolForm(pools=pools), pool_form=form, pools=pools)
