"""The composer: one form, checked while it is filled in, that yields exactly one job."""

from __future__ import annotations

import uuid
from typing import Any, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, IdempotencyConflict, NotFound
from accounts.models import User
from portal import limits
from portal.forms.filters import unknown_parameters
from portal.forms.job_text import blank_initial, initial_from
from portal.forms.jobs import JobForm
from portal.pages.access import page, viewer_of
from portal.pages.composing.offers import Offer, offer_for
from portal.pages.samples import sample_document
from portal.reports.spec_text import command_line_of, yaml_of
from scheduler.loop.quoting import quote_job
from scheduler.models import Job
from scheduler.selectors.jobs import clone_document, get_visible_job
from scheduler.services.jobs import submit_job
from scheduler.spec import SpecInvalid

PARAMETERS = ("clone", "from", "part", "project", "pool")


@page("GET", "POST")
def job_submit(request: HttpRequest) -> HttpResponseBase:
    """Fill in, check, submit. `?clone=` and `?from=sample` prefill; `?part=summary` only checks."""
    viewer = viewer_of(request)
    offer = offer_for(viewer)
    wait_s = 0
    context: dict[str, Any] = {}
    if request.method == "POST":
        form = offer.form(request.POST)
        wants_check = "check" in request.POST or request.GET.get("part") == "summary"
        if not wants_check and (wait_s := limits.buckets(limits.SUBMIT).wait_s(viewer.pk)):
            form.add_error(None, f"You submit too fast. Try again in {wait_s} s.")
        elif not wants_check and form.is_valid() and (job := _submitted(viewer, form)):
            if job.job_set_id:
                return redirect("sets:detail", job.job_set_id)
            return redirect("jobs:detail", job.pk)
        context = _checked(viewer, form) if wants_check else {}
    else:
        form = offer.form(initial=_initial(request, viewer, offer))
    context |= {
        "form": form,
        "is_prefilled": "clone" in request.GET or "from" in request.GET,
        "projects": offer.projects,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": timezone.now(),
    }
    if request.GET.get("part") == "summary" and request.method == "POST":
        return render(request, "jobs/submit.html#summary", context)
    answer = render(request, "jobs/submit.html", context, status=429 if wait_s else 200)
    if wait_s:
        answer["Retry-After"] = str(wait_s)
    return answer


def _initial(request: HttpRequest, viewer: User, offer: Offer) -> dict[str, Any]:
    chosen = offer.chosen(request)
    if request.GET.get("clone"):
        job = _cloned(viewer, request.GET["clone"])
        if job is not None:
            return initial_from(clone_document(viewer, job)) | {"cloned_from": job.pk}
        messages.warning(request, "There is no such job to clone; this is an empty form.")
    elif request.GET.get("from") == "sample":
        return initial_from(sample_document(chosen["project"], chosen["pool"]))
    elif request.GET.get("from"):
        messages.warning(request, "There is no such template; this is an empty form.")
    return blank_initial() | chosen


def _cloned(viewer: User, text: str) -> Job | None:
    """The job to clone; None for one that is not there for the viewer."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        return None
    try:
        job = get_visible_job(viewer, int(text))
        clone_document(viewer, job)
    except NotFound:
        return None
    return job


def _submitted(viewer: User, form: JobForm) -> Job | None:
    """The new job, or the same one when the button was pressed twice; None with form errors."""
    cleaned = form.cleaned_data
    try:
        submitted = submit_job(
            actor=viewer,
            spec=form.spec,
            idempotency_key=f"form:{cleaned['nonce']}" if cleaned["nonce"] else "",
            cloned_from=_cloned(viewer, cleaned["cloned_from"]) if cleaned["cloned_from"] else None,
        )
    except SpecInvalid as refused:
        form.add_problems(refused)
    except IdempotencyConflict:
        # Sent before, then changed: another press is meant as another job.
        data = cast(QueryDict, form.data).copy()
        data["nonce"] = uuid.uuid4().hex
        form.data = data
        form.add_error(
            None,
            "This form has been sent before and was changed since. Press Submit again to start "
            "a second job.",
        )
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
    else:
        return submitted.job
    return None


def _checked(viewer: User, form: JobForm) -> dict[str, Any]:
    """The dry run: what a submit would meet. Writes nothing."""
    if not form.is_valid():
        return {"checked": True}
    context: dict[str, Any] = {
        "checked": True,
        "spec": form.spec,
        "yaml": yaml_of(form.spec),
        "command_line": command_line_of(form.spec),
    }
    try:
        context["quote"] = quote_job(actor=viewer, spec=form.spec)
    except SpecInvalid as refused:
        form.add_problems(refused)
    return context
