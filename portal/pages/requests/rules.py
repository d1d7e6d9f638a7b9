"""Who decides on which requests: what holds by kind, in words; administrators lay down and end."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.permissions import can
from portal.forms.requests import RuleEndForm, RuleForm
from portal.pages.access import choice, page, viewer_of
from portal.pages.finance.acting import decide, decide_by_form
from portal.pages.listing.leaves import leaf_of
from scheduler.conf import load_conf
from scheduler.selectors.requesting.rules import desk_of_rules, routing_of
from scheduler.services.errors import Invalid
from scheduler.services.requesting.policies import end_request_policy, set_request_policy
from scheduler.states import RequestKind

_DIALS = ("money_limit", "always_admin", "sla_hours", "most_days", "auto_up_to")


@page("GET", "POST")
def approval_rules(request: HttpRequest) -> HttpResponseBase:
    """What holds and what it decided lately; POST lays another rule down."""
    viewer = viewer_of(request)
    if request.method != "POST":
        return _show(request)

    def act(cleaned: dict[str, Any]) -> str:
        row = set_request_policy(actor=viewer, **cleaned)
        return f"Rule {row.pk} holds {row.scope_words}, for what is submitted from now on."

    desk_of_rules(viewer, now=timezone.now())
    return decide_by_form(request, RuleForm(request.POST), act, _show, "approval_rules")


@page("POST", back="approval_rules")
def approval_rule_end(request: HttpRequest) -> HttpResponseBase:
    """End the rule of a kind."""
    viewer, form = viewer_of(request), RuleEndForm(request.POST)

    def done() -> str:
        if not form.is_valid():
            raise Invalid("Name one kind of request.", field="kind")
        row = end_request_policy(actor=viewer, kind=form.cleaned_data["kind"])
        after = routing_of(row.kind)
        rest = "all is as usual"
        if after.row is not None:
            rest = f"rule {after.row.pk} {after.row.scope_words} holds"
        return f"The rule {row.scope_words} has ended; from now on {rest}."

    return decide(request, done, _show, "approval_rules")


def _show(request: HttpRequest, *, status: int = 200, form: RuleForm | None = None) -> HttpResponse:
    viewer, now = viewer_of(request), timezone.now()
    desk = desk_of_rules(viewer, now=now)
    kind = choice(request, "kind", tuple(RequestKind))
    if form is None:
        holds = next((one.routing for one in desk.held if one.kind == kind), None)
        holds = holds or routing_of("")
        form = RuleForm(
            initial={
                "kind": kind,
                **{dial: getattr(holds, dial) for dial in _DIALS},
                "money_limit": None
                if holds.money_limit is None
                else f"{holds.money_limit.normalize():f}",
            }
        )
    context = {
        "desk": desk,
        "currency": load_conf().currency,
        "history": leaf_of(request, desk.history, "page", size=50),
        "may_act": can(viewer, "administer", None),
        "form": form,
        "now": now,
    }
    return render(request, "requests/rules.html", context, status=status)
