"""The rule of a project or pool for GPUs that do little: tried first, then put in force."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import Project
from accounts.selectors import get_visible_project
from portal.forms.cluster.idling import IdleRuleForm
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide, decide_by_form
from scheduler.models import Pool
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.idling.rules import idle_rule_of
from scheduler.services.errors import DomainError, Forbidden, NotFound
from scheduler.services.idling.rules import end_idle_rule, set_idle_rule
from scheduler.services.idling.trying import Trial, try_idle_rule


@page("GET", "POST")
def project_idle(request: HttpRequest, slug: str, project: str) -> HttpResponseBase:
    """Of a project: seen by all who see it, set by leads of its team."""
    found = get_visible_project(viewer_of(request), f"{slug}/{project}")
    return _answer(request, found, "teams:idle", slug, project)


@page("GET", "POST")
def pool_idle(request: HttpRequest, name: str) -> HttpResponseBase:
    """Of a pool: seen by everybody, set by operators."""
    return _answer(request, get_visible_pool(viewer_of(request), name), "pools:idle", name)


def _answer(request: HttpRequest, owner: Project | Pool, *route: Any) -> HttpResponseBase:
    """POST with `try` says what would have happened, with `off` switches off, else sets."""
    viewer, now = viewer_of(request), timezone.now()
    view = idle_rule_of(viewer, owner)

    def show(
        request: HttpRequest,
        *,
        status: int = 200,
        form: IdleRuleForm | None = None,
        trial: Trial | None = None,
    ) -> HttpResponse:
        context = {
            "project": None if isinstance(owner, Pool) else owner,
            "pool": owner if isinstance(owner, Pool) else None,
            "view": view,
            "form": form or IdleRuleForm.of(view.rule),
            "trial": trial,
            "now": now,
        }
        return render(request, "idling/rule.html", context, status=status)

    if request.method != "POST":
        return show(request)
    if "off" in request.POST:

        def end() -> str:
            end_idle_rule(actor=viewer, owner=owner)
            return "The rule is off: nobody is warned by it any more."

        return decide(request, end, show, *route)
    form = IdleRuleForm(request.POST)
    if "try" in request.POST and form.is_valid():
        try:
            trial = try_idle_rule(
                actor=viewer, owner=owner, terms=form.terms(), days=form.days(), now=now
            )
        except (NotFound, Forbidden):
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
            return show(request, status=422, form=form)
        return show(request, form=form, trial=trial)

    def act(_: dict[str, Any]) -> str:
        set_idle_rule(actor=viewer, owner=owner, terms=form.terms())
        return "The rule is in force; who rests already is warned within a minute."

    return decide_by_form(request, form, act, show, *route)
