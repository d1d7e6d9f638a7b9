"""How long what a project's jobs leave is kept: seen by all who see it, set by its leads."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.selectors import get_visible_project
from portal.forms.teams import RetentionForm
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide_by_form
from scheduler.selectors.kept.retention import retention_of
from scheduler.services.kept.pruning import Pruned, set_retention, would_prune


@page("GET", "POST")
def project_retention(request: HttpRequest, slug: str, project: str) -> HttpResponseBase:
    """POST with `try` counts what would go, without it sets the days."""
    viewer = viewer_of(request)
    found = get_visible_project(viewer, f"{slug}/{project}")
    kept = retention_of(viewer, found)

    def show(
        request: HttpRequest,
        *,
        status: int = 200,
        form: RetentionForm | None = None,
        would_go: Pruned | None = None,
    ) -> HttpResponse:
        days = {name: getattr(kept, name) for name in RetentionForm.base_fields}
        context = {
            "project": found,
            "kept": kept,
            "form": form or RetentionForm(initial=days),
            "would_go": would_go,
        }
        return render(request, "teams/retention.html", context, status=status)

    if request.method != "POST":
        return show(request)
    form = RetentionForm(request.POST)
    if "try" in request.POST and form.is_valid():
        days = form.cleaned_data
        gone = would_prune(actor=viewer, project=found, **days, now=timezone.now())
        return show(request, form=form, would_go=gone)

    def act(days: dict[str, Any]) -> str:
        set_retention(actor=viewer, project=found, **days)
        return "It is set. What is older goes within the hour."

    return decide_by_form(request, form, act, show, "teams:retention", slug, project)
