"""What can be done to one request: each a POST that names the version it was pressed on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from accounts.errors import Conflict, DomainError, Forbidden, NotFound
from portal.forms.requests import TextForm, VersionForm, WishForm
from portal.pages.access import page, told_of, viewer_of
from portal.pages.changing.reasons import asked_or_said, reason_in
from portal.pages.requests.detail import show
from scheduler.models import QuotaRequest
from scheduler.selectors import requesting as select
from scheduler.services.requesting import asking, reminding
from scheduler.services.requesting.assigning import assign_request
from scheduler.services.requesting.foreseeing import whatif
from scheduler.services.requesting.granting import revoke_granted
from scheduler.states import RequestState


def _act(
    request: HttpRequest,
    pk: int,
    form: forms.Form,
    act: Callable[[QuotaRequest], str],
    place: str = "",
    verb: str = "",
) -> HttpResponseBase:
    """Do what a form asks; a refusal is said on the page, a conflict with 409. `verb`: what the
    button says that gives a reason, where one is needed."""
    viewer = viewer_of(request)
    found = select.get_visible_request(viewer, pk)
    kept: dict[str, Any] = {place: form} if place else {}
    if not form.is_valid():
        messages.error(request, "Something is missing; look at the fields.")
        return show(request, found, **kept)
    try:
        messages.success(request, act(found))
    except (NotFound, Forbidden):
        raise
    except Conflict as refused:
        messages.warning(request, refused.detail)
        return show(request, select.get_visible_request(viewer, pk), status=409)
    except DomainError as refused:
        if verb and refused.field == "reason":
            return asked_or_said(request, refused, "requests:detail", pk, verb=verb)
        if place and refused.field in form.fields:
            form.add_error(refused.field, refused.detail)
        else:
            messages.error(request, told_of(refused, request))
        return show(request, select.get_visible_request(viewer, pk), **kept)
    return redirect("requests:detail", pk=pk)


@page("POST")
def request_submit(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Send a draft on its way."""
    form = VersionForm(request.POST)

    def act(found: QuotaRequest) -> str:
        version = form.cleaned_data["version"]
        asking.submit_request(actor=viewer_of(request), request_id=found.pk, version=version)
        return f"{found} is on its way."

    return _act(request, pk, form, act)


@page("POST")
def request_withdraw(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Take it back."""
    form = VersionForm(request.POST)

    def act(found: QuotaRequest) -> str:
        version = form.cleaned_data["version"]
        asking.withdraw_request(actor=viewer_of(request), request_id=found.pk, version=version)
        return f"{found} is withdrawn."

    return _act(request, pk, form, act)


@page("POST")
def request_revise(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Another version of the text."""
    form, version_form = WishForm(request.POST), VersionForm(request.POST)

    def act(found: QuotaRequest) -> str:
        now = timezone.now()
        version = version_form.cleaned_data["version"] if version_form.is_valid() else 0
        wish = form.wish(now)
        asking.revise_request(
            actor=viewer_of(request), request_id=found.pk, version=version, now=now, **wish
        )
        return f"{found} has a new version."

    return _act(request, pk, form, act, "wish_form")


@page("POST")
def request_revoke(request: HttpRequest, pk: int) -> HttpResponseBase:
    """End what was granted before its time."""
    form = VersionForm(request.POST)

    def act(found: QuotaRequest) -> str:
        version = form.cleaned_data["version"]
        done = revoke_granted(
            actor=viewer_of(request),
            request_id=found.pk,
            version=version,
            reason=reason_in(request),
        )
        if done.booking_id is not None:
            return f"The booking of {found} is given back; jobs inside are stopped."
        return f"What {found} granted is revoked. What runs goes on."

    return _act(request, pk, form, act, verb="End it now")


@page("POST")
def request_assign(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Hand it to somebody who may decide; the decision itself stays open to all of them."""
    form = VersionForm(request.POST)

    def act(found: QuotaRequest) -> str:
        done = assign_request(
            actor=viewer_of(request),
            request_id=found.pk,
            version=form.cleaned_data["version"],
            to=request.POST.get("to", ""),
        )
        whose = done.assigned_to
        if whose is None:
            return f"{done} waits for whoever may decide."
        return f"{done} is assigned to {whose.get_full_name() or whose.get_username()}."

    return _act(request, pk, form, act)


@page("POST")
def request_comment(request: HttpRequest, pk: int) -> HttpResponseBase:
    """A word; where a question is open and the asker writes, it is the answer."""
    form = TextForm(request.POST)

    def act(found: QuotaRequest) -> str:
        viewer, text = viewer_of(request), form.cleaned_data["text"]
        if found.state == RequestState.NEEDS_INFO and found.asked_by_id == viewer.pk:
            asking.answer_request(
                actor=viewer, request_id=found.pk, version=found.version, text=text
            )
            return "Your answer is on its way."
        asking.comment_on_request(actor=viewer, request=found, text=text)
        return "Your comment is there."

    return _act(request, pk, form, act, "comment_form")


@page("POST")
def request_whatif(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Ask what it would do to everyone; a short history is replayed at once."""

    def act(found: QuotaRequest) -> str:
        now = timezone.now()
        viewer, again = viewer_of(request), timedelta(0)
        row = whatif.ask_whatif(actor=viewer, request=found, fresh_for=again, now=now)
        row = whatif.simulate_at_once(row, now=now)
        return "It is worked out." if row.answer else "It is being worked out; look again shortly."

    return _act(request, pk, forms.Form(request.POST), act)


@page("POST")
def request_renew(request: HttpRequest, pk: int) -> HttpResponseBase:
    """A draft for the time after its grant, filled in."""
    viewer = viewer_of(request)
    found = select.get_visible_request(viewer, pk)
    try:
        made = reminding.renew_request(actor=viewer, request=found, now=timezone.now())
    except (NotFound, Forbidden):
        raise
    except DomainError as refused:
        messages.warning(request, refused.detail)
        return show(request, found, status=refused.status if refused.status == 409 else 200)
    messages.success(request, f"{made} is a draft for the time afterwards. Look at it and submit.")
    return redirect("requests:detail", pk=made.pk)
