"""The composer: one form, checked while it is filled in, that yields exactly one job."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, IdempotencyConflict, NotFound
from accounts.models import User
from portal import limits
from portal.forms.composing.held import hold_to
from portal.forms.filters import unknown_parameters
from portal.forms.job_text import blank_initial, blank_session, initial_from
from portal.forms.jobs import JobForm
from portal.pages.access import page, viewer_of
from portal.pages.composing.alternatives import alternatives
from portal.pages.composing.drafts import draft_initial, keep_draft
from portal.pages.composing.fixing import opened_with, pressed, replaceable
from portal.pages.composing.offers import Offer, offer_for
from portal.pages.composing.ruling import news_of, rules_tried
from portal.pages.samples import sample_document
from portal.reports.spec_text import command_line_of, yaml_of
from scheduler.loop.supposing.quoting import quote_job
from scheduler.models import Job, TemplateVersion
from scheduler.selectors.composing.drafts import drafts_of
from scheduler.selectors.composing.templates import get_version, leads_any, version_of_job
from scheduler.selectors.jobs import clone_document, get_visible_job
from scheduler.services.composing.allowing import refuse_outside
from scheduler.services.composing.drafts import drop_draft, submit_key
from scheduler.services.composing.replacing import submit_instead
from scheduler.services.composing.templates import submit_from_template
from scheduler.services.jobs import submit_job
from scheduler.spec import SpecInvalid

PARAMETERS = ("clone", "fix", "template", "draft", "from", "part", "project", "pool")
MOST_DRAFTS_SHOWN = 3


@page("GET", "POST")
def job_submit(request: HttpRequest) -> HttpResponseBase:
    """Fill in, check, submit. `?clone=`, `?template=`, `?draft=` and `?from=sample` prefill, each
    `?fix=` changes something of it; `?part=summary` only checks, and keeps what was typed as a
    draft.
    """
    viewer = viewer_of(request)
    offer = offer_for(viewer)
    wait_s = 0
    if request.method == "POST":
        form, version = _sent_form(request, viewer, offer)
        context: dict[str, Any] = {"version": version}
        wants_check = _wants_check(request)
        if not wants_check and (wait_s := limits.wait_s(limits.SUBMIT, viewer.pk)):
            form.add_error(None, f"You submit too fast. Try again in {wait_s} s.")
        elif not wants_check and form.is_valid() and (job := _submitted(viewer, form, version)):
            drop_draft(actor=viewer, key=form.cleaned_data["nonce"])
            return _on_to(job, form)
        if wants_check:
            # Only a template asks what it comes from.
            origin = _cloned(viewer, str(form.cloned_number or "")) if version else None
            context |= _checked(viewer, form, version, origin)
            if "whatif" in request.POST and "quote" in context:
                found = alternatives(viewer, form.spec, offer.models, version, origin)
                context["alternatives"] = found
            context |= {"draft": None if "quiet" in request.POST else keep_draft(viewer, form)}
            context |= _not_mended(request, form)
    else:
        initial, version = _initial(request, viewer, offer)
        fixed = opened_with(request, initial, version, offer)
        form = offer.form(initial=fixed.fields | {"replaces": fixed.mends})
        context = {"version": version, "drafts": drafts_of(viewer)[: MOST_DRAFTS_SHOWN + 1]}
        context |= {"fixed": fixed.words, "problems": fixed.problems}
        if version is not None:
            hold_to(form, version.rules)
    context |= _around(viewer, offer, form) | {
        "is_prefilled": bool({"clone", "from", "template", "draft"} & request.GET.keys()),
        "unknown": unknown_parameters(request.GET, PARAMETERS),
    }
    if request.GET.get("part") == "summary" and request.method == "POST":
        return render(request, "jobs/submit.html#summary", context)
    context["replaced"] = replaceable(viewer, form)
    answer = render(request, "jobs/submit.html", context, status=429 if wait_s else 200)
    if wait_s:
        answer["Retry-After"] = str(wait_s)
    return answer


@page("GET")
def session_new(request: HttpRequest) -> HttpResponseBase:
    """The same form, as a session begins; `?again=` prefills from an earlier one."""
    viewer = viewer_of(request)
    offer = offer_for(viewer)
    initial, version = blank_initial() | blank_session() | offer.chosen(request), None
    if again := request.GET.get("again"):
        job = _cloned(viewer, again)
        if job is not None and job.spec.get("session"):
            initial, version = _cloned_initial(viewer, job)
        else:
            messages.warning(request, "There is no such session; this is a new one.")
    form = offer.form(initial=initial)
    if version is not None:
        hold_to(form, version.rules)
    context = _around(viewer, offer, form) | {
        "version": version,
        "is_prefilled": True,
        "unknown": unknown_parameters(request.GET, ("again", "project", "pool")),
    }
    return render(request, "jobs/submit.html", context)


def _around(viewer: User, offer: Offer, form: JobForm) -> dict[str, Any]:
    """What the page says beside its fields, whatever it begins with."""
    return {
        "form": form,
        "may_make_templates": leads_any(viewer),
        "projects": offer.projects,
        "now": timezone.now(),
    }


def _on_to(job: Job, form: JobForm) -> HttpResponseBase:
    """To the page of what was submitted."""
    if job.job_set_id:
        return redirect("sets:detail", job.job_set_id)
    return redirect("sessions:detail" if form.spec.session else "jobs:detail", job.pk)


def _wants_check(request: HttpRequest) -> bool:
    return (
        bool({"check", "whatif", "use"} & request.POST.keys())
        or request.GET.get("part") == "summary"
    )


def _sent_form(
    request: HttpRequest, viewer: User, offer: Offer
) -> tuple[JobForm, TemplateVersion | None]:
    """What was posted; of a template's locked fields its own values count."""
    reference = request.POST.get("template", "")
    try:
        version = get_version(viewer, reference) if reference else None
    except NotFound as missing:
        form = offer.form(request.POST)
        form.add_error(None, f"{missing.detail} Start from another one, or from an empty form.")
        return form, None
    data = pressed(request.POST, version, offer)
    if version is None:
        return offer.form(data), None
    form = offer.form(data, initial_from(version.document))
    hold_to(form, version.rules)
    return form, version


def _initial(
    request: HttpRequest, viewer: User, offer: Offer
) -> tuple[dict[str, Any], TemplateVersion | None]:
    """What the form begins with, and the template that holds it."""
    chosen, sent = offer.chosen(request), request.GET
    if sent.get("clone"):
        job = _cloned(viewer, sent["clone"])
        if job is not None:
            return _cloned_initial(viewer, job)
        messages.warning(request, "There is no such job to clone; this is an empty form.")
    elif sent.get("template"):
        try:
            version = get_version(viewer, sent["template"])
        except NotFound:
            messages.warning(request, "There is no such template; this is an empty form.")
        else:
            named = {"template": version.reference, "name": version.template.name}
            chosen = offer.chosen(request, version.template.team_id)
            return blank_initial() | named | chosen | _of_version(version), version
    elif sent.get("draft"):
        found = draft_initial(viewer, sent["draft"])
        if found is not None:
            return found
        messages.warning(request, "There is no such draft; this is an empty form.")
    elif sent.get("from") == "sample":
        return initial_from(sample_document(chosen["project"], chosen["pool"])), None
    elif sent.get("from"):
        messages.warning(request, "There is no such sample; this is an empty form.")
    return blank_initial() | chosen, None


def _cloned_initial(viewer: User, job: Job) -> tuple[dict[str, Any], TemplateVersion | None]:
    version = version_of_job(viewer, job)
    if version is not None and version.template.retired_at is not None:
        version = None
    held = {"cloned_from": job.pk, "template": version.reference if version else ""}
    return initial_from(clone_document(viewer, job)) | held, version


def _of_version(version: TemplateVersion) -> dict[str, Any]:
    """The fields that a template names."""
    filled = initial_from(version.document)
    return {name: value for name, value in filled.items() if value not in (None, "")}


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


def _not_mended(request: HttpRequest, form: JobForm) -> dict[str, Any]:
    """Of the fields that the page names above the form, since a submit was refused, those that are
    wrong still; nothing where it names none."""
    named = [name for name in request.POST.get("refused", "").split() if name in form.fields]
    if not named or request.GET.get("part") != "summary":
        return {}
    return {"refused": {"fields": [form[name] for name in named if form.has_error(name)]}}


def _submitted(viewer: User, form: JobForm, version: TemplateVersion | None) -> Job | None:
    """The new job, or the same one when the button was pressed twice; None with form errors."""
    cleaned = form.cleaned_data
    try:
        origin = _cloned(viewer, cleaned["cloned_from"]) if cleaned["cloned_from"] else None
        submit = partial(
            partial(submit_from_template, version=version) if version else submit_job,
            actor=viewer,
            spec=form.spec,
            idempotency_key=submit_key(cleaned["nonce"]) if cleaned["nonce"] else "",
            cloned_from=origin,
        )
        if cleaned["replaces"] and origin is not None:
            submitted = submit_instead(actor=viewer, waiting=origin, submit=submit)
        else:
            submitted = submit()
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


def _checked(
    viewer: User, form: JobForm, version: TemplateVersion | None, origin: Job | None
) -> dict[str, Any]:
    """The dry run: what a submit would meet. Writes nothing."""
    if not form.is_valid():
        return {"checked": True}
    reference, document = (version.reference, version.document) if version else ("", {})
    context: dict[str, Any] = {
        "checked": True,
        "spec": form.spec,
        "yaml": yaml_of(form.spec, document),
        "command_line": command_line_of(form.spec, reference, document),
        "tried": rules_tried(viewer, form),
        "told": news_of(viewer, form.spec),
    }
    try:
        if version is not None:
            refuse_outside(version, form.spec, origin)
        template = version.template_id if version else 0
        within = partial(refuse_outside, version, cloned_from=origin) if version else None
        context["quote"] = quote_job(actor=viewer, spec=form.spec, template=template, within=within)
    except SpecInvalid as refused:
        form.add_problems(refused)
    return context
