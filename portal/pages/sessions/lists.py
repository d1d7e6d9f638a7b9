"""Sessions of the viewer and of others, and the form that starts one."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, NotFound
from accounts.models import User
from accounts.selectors import submittable_projects
from portal import limits
from portal.forms.filters import unknown_parameters
from portal.forms.sessions.starting import SessionForm, initial_of
from portal.pages.access import page, viewer_of
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from scheduler.models import Job
from scheduler.selectors.cluster import pool_summaries
from scheduler.selectors.jobs import clone_document, get_visible_job
from scheduler.selectors.sessions import session_cards, visible_sessions
from scheduler.services.jobs import submit_job
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import FINAL_JOB_STATES

SHOWN = 60
DEFAULT_POOL = "default"


@page("GET")
def session_list(request: HttpRequest) -> HttpResponseBase:
    """Cards: what runs or waits first, then what ended lately. `?part=live` is the cards alone."""
    viewer, now = viewer_of(request), timezone.now()
    if opened := opened_in_scope(request, viewer):
        return opened
    problems: list[str] = []
    scope = scope_here(request, viewer, problems)
    found = list(visible_sessions(viewer).filter(scope.part_of("job__project"))[:SHOWN])
    cards = session_cards(viewer, found, now=now)
    mine = [card for card in cards if card.session.job.owner_id == viewer.pk]
    open_cards = [card for card in mine if card.state not in FINAL_JOB_STATES]
    context = {
        "cards": open_cards,
        "ended": [card for card in mine if card.state in FINAL_JOB_STATES][:12],
        "others": [
            card
            for card in cards
            if card.session.job.owner_id != viewer.pk and card.state not in FINAL_JOB_STATES
        ],
        "may_start": submittable_projects(viewer).exists(),
        "unknown": unknown_parameters(request.GET, ("part", "scope")),
        "problems": problems,
        "now": now,
    }
    template = "sessions/list.html"
    return render(request, f"{template}#live" if request.GET.get("part") else template, context)


@page("GET", "POST")
def session_new(request: HttpRequest) -> HttpResponseBase:
    """Start one; `?again=` prefills from an earlier one."""
    viewer = viewer_of(request)
    mine = submittable_projects(viewer)
    offered: dict[str, Any] = {
        "projects": [(one.path, f"{one.team.name} / {one.name}") for one in mine],
        "pools": [
            (one.pool.name, f"{one.pool.name}: {one.free} of {one.total} GPUs free")
            for one in pool_summaries(viewer)
        ],
    }
    wait_s = 0
    if request.method == "POST":
        form = SessionForm(request.POST, **offered)
        if wait_s := limits.buckets(limits.SUBMIT).wait_s(viewer.pk):
            form.add_error(None, f"You submit too fast. Try again in {wait_s} s.")
        elif form.is_valid() and (job := _started(viewer, form)):
            return redirect("sessions:detail", job.pk)
    else:
        form = SessionForm(initial=_initial(request, viewer, offered), **offered)
    context = {"form": form, "unknown": unknown_parameters(request.GET, ("again",))}
    answer = render(request, "sessions/new.html", context, status=429 if wait_s else 200)
    if wait_s:
        answer["Retry-After"] = str(wait_s)
    return answer


def _started(viewer: User, form: SessionForm) -> Job | None:
    assert form.spec is not None
    nonce = form.cleaned_data["nonce"]
    try:
        submitted = submit_job(
            actor=viewer, spec=form.spec, idempotency_key=f"form:{nonce}" if nonce else ""
        )
    except SpecInvalid as refused:
        form.add_problems(refused)
        return None
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        return None
    return submitted.job


def _initial(request: HttpRequest, viewer: User, offered: dict[str, Any]) -> dict[str, Any]:
    again = request.GET.get("again", "")
    if again.isascii() and again.isdigit() and len(again) <= 18:
        try:
            spec = parse_spec(clone_document(viewer, get_visible_job(viewer, int(again))))
        except (NotFound, SpecInvalid):
            spec = None
        if spec is not None and spec.session is not None:
            return initial_of(spec)
    pools = [name for name, _ in offered["pools"]]
    return {"pool": DEFAULT_POOL if DEFAULT_POOL in pools else next(iter(pools), "")}
