"""Amounts by hand: proposed by one person, posted or declined by another."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.selectors import get_visible_project, visible_projects
from portal.forms.money.finance import AdjustmentForm
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide, decide_by_form
from portal.pages.listing.leaves import leaf_of
from scheduler.conf import load_conf
from scheduler.selectors.books.desk import adjustments_for, get_adjustment
from scheduler.services.books import decline_adjustment, post_adjustment, propose_adjustment


@page("GET", "POST")
def adjustment_list(request: HttpRequest) -> HttpResponseBase:
    """What waits and what was decided; POST proposes another."""
    viewer = viewer_of(request)
    if request.method != "POST":
        return _show(request)

    def act(cleaned: dict[str, Any]) -> str:
        project = get_visible_project(viewer, cleaned["project"])
        propose_adjustment(
            actor=viewer, project=project, amount=cleaned["amount"], reason=cleaned["reason"]
        )
        return "It is proposed; another person has to post it."

    return decide_by_form(request, _form(viewer, request.POST), act, _show, "finance:adjustments")


@page("POST", back="finance:adjustments")
def adjustment_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Post it into the month of now, or decline it."""
    viewer = viewer_of(request)
    if act not in ("post", "decline"):
        raise Http404
    adjustment = get_adjustment(viewer, pk)

    def done() -> str:
        if act == "post":
            posted = post_adjustment(actor=viewer, adjustment=adjustment)
            assert posted.entry is not None
            return f"It is posted as entry {posted.entry.number}."
        decline_adjustment(actor=viewer, adjustment=adjustment)
        return "It is declined; nothing was posted."

    return decide(request, done, _show, "finance:adjustments")


def _form(viewer: User, data: Any = None) -> AdjustmentForm:
    projects = [(one.path, one.path) for one in visible_projects(viewer)]
    return AdjustmentForm(data, projects=projects)


def _show(
    request: HttpRequest, *, status: int = 200, form: AdjustmentForm | None = None
) -> HttpResponse:
    viewer = viewer_of(request)
    context = {
        "rows": leaf_of(request, adjustments_for(viewer), "page"),
        "may_act": can(viewer, "keep_books", None),
        "me": viewer.pk,
        "form": form or _form(viewer),
        "currency": load_conf().currency,
        "now": timezone.now(),
    }
    return render(request, "finance/adjustments.html", context, status=status)
