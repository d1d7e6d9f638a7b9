"""Terms of pools: who pays for what nobody used; proposed by one person, approved by another."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from portal.forms.money.costs import TermsForm
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide, decide_by_form
from portal.pages.listing.leaves import leaf_of
from scheduler.models import PoolTerms
from scheduler.selectors.books.terms import FIRST_MONTH, desk_of_terms, get_visible_terms
from scheduler.selectors.cluster import get_visible_pool, visible_pools
from scheduler.services import books


@page("GET", "POST")
def terms_list(request: HttpRequest) -> HttpResponseBase:
    """What holds in each pool, what waits, and what was; POST proposes other terms."""
    viewer = viewer_of(request)
    if request.method != "POST":
        return _show(request)

    form = _form(viewer, request.POST)

    def act(_: dict[str, Any]) -> str:
        changes = form.changes()
        pool = get_visible_pool(viewer, changes.pop("pool"))
        row = books.propose_terms(actor=viewer, pool=pool, **changes)
        if row.decided_at:
            return f"They hold from {_from_words(row)} on: nobody else keeps the books."
        return "The terms are proposed; another person has to approve them."

    desk_of_terms(viewer)
    return decide_by_form(request, form, act, _show, "finance:terms")


@page("POST", back="finance:terms")
def terms_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Approve proposed terms, or decline them."""
    viewer = viewer_of(request)
    if act not in ("approve", "decline"):
        raise Http404
    terms = get_visible_terms(viewer, pk)

    def done() -> str:
        if act == "approve":
            books.approve_terms(actor=viewer, terms=terms)
            return f"The terms hold from {_from_words(terms)} on."
        books.decline_terms(actor=viewer, terms=terms)
        return "The terms are declined; nothing changes."

    return decide(request, done, _show, "finance:terms")


def _from_words(row: PoolTerms) -> str:
    """Its month; before any was closed all of them are meant."""
    return "the first month" if row.from_month == FIRST_MONTH else row.from_month


def _form(viewer: User, data: Any = None) -> TermsForm:
    return TermsForm(data, pools=[pool.name for pool in visible_pools(viewer)])


def _show(
    request: HttpRequest, *, status: int = 200, form: TermsForm | None = None
) -> HttpResponse:
    viewer = viewer_of(request)
    desk = desk_of_terms(viewer)
    context = {
        "month": desk.month,
        "begins": desk.begins,
        "waiting": leaf_of(request, desk.waiting, "waiting"),
        "holding": leaf_of(request, desk.holding, "page"),
        "decided": leaf_of(request, desk.decided, "history"),
        "may_act": can(viewer, "keep_books", None),
        "me": viewer.pk,
        "form": form or _form(viewer),
        "now": timezone.now(),
    }
    return render(request, "finance/terms.html", context, status=status)
