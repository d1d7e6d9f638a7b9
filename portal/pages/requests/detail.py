"""One request: its text and what changed in it, its history, what it would do, and the decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import Conflict, DomainError, Forbidden, NotFound
from portal.forms.requests import DecideForm, TextForm, VersionForm, WishForm
from portal.pages.access import page, viewer_of
from scheduler.models import QuotaRequest, RequestVersion
from scheduler.selectors import requesting as select
from scheduler.services.requesting import asking, reminding, whatif
from scheduler.services.requesting.deciding import decide_request, offer_of
from scheduler.services.requesting.granting import is_in_force, may_revoke, revoke_granted
from scheduler.services.requesting.rights import require_decider
from scheduler.services.requesting.standing import standing_of
from scheduler.states import (
    FINAL_REQUEST_STATES,
    KIND_WORDS,
    REQUEST_WORDS,
    REVIEW_STATES,
    RequestState,
)

_GRANTED = frozenset({RequestState.APPROVED, RequestState.PARTLY_APPROVED})


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a revision says otherwise than the one before it."""

    label: str
    was: object
    now: object


@page("GET")
def request_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Looking changes nothing."""
    return _show(request, select.get_visible_request(viewer_of(request), pk))


def _show(
    request: HttpRequest, found: QuotaRequest, *, status: int = 200, **extra: Any
) -> HttpResponseBase:
    viewer, now = viewer_of(request), timezone.now()
    versions = list(found.versions.select_related("written_by"))
    asked = versions[-1]
    may_decide, why_not = _may_decide(viewer, found)
    is_mine = found.asked_by_id == viewer.pk
    offer = offer_of(found)
    decisions = list(found.decisions.select_related("decided_by", "on_behalf_of", "whatif"))
    row = found.whatifs.filter(revision=found.revision).first()
    if found.state in FINAL_REQUEST_STATES and decisions:
        # What the last one who decided had seen, whatever was asked since.
        row = decisions[-1].whatif or row
    context = {
        "asked": asked,
        "changes": [(version, _changes(before, version)) for before, version in pairwise(versions)],
        "what": KIND_WORDS[found.kind],  # type: ignore[index]
        "state_words": REQUEST_WORDS[found.state],  # type: ignore[index]
        "events": found.events.select_related("actor", "on_behalf_of"),
        "whatif": row,
        "table": _table(row.answer) if row is not None and row.answer else None,
        "standing": standing_of(found.project or found.team, now=now),
        "may_decide": may_decide,
        "why_not": why_not,
        "may_revoke": is_in_force(found, now) and may_revoke(viewer, found),
        "may_renew": is_mine and found.state in _GRANTED,
        "decisions": decisions,
        "offer": offer,
        "decide_form": DecideForm(initial={"version": found.version}),
        "comment_form": TextForm(),
        "is_mine": is_mine,
        "is_open": found.state not in FINAL_REQUEST_STATES,
        "is_draft": found.state == RequestState.DRAFT,
        "wish_form": _wish_form(asked) if is_mine else None,
        "now": now,
    }
    return render(
        request, "requests/detail.html", {"req": found, **context, **extra}, status=status
    )


def _wish_form(asked: RequestVersion) -> WishForm:
    return WishForm(
        initial={
            "amount": asked.amount,
            "valid_from": timezone.localtime(asked.valid_from).date(),
            "valid_until": timezone.localtime(asked.valid_until).date(),
            "justification": asked.justification,
        }
    )


def _may_decide(viewer: Any, found: QuotaRequest) -> tuple[bool, str]:
    if found.state not in REVIEW_STATES:
        return False, ""
    try:
        require_decider(viewer, found)
    except Forbidden as refused:
        return False, refused.detail
    return True, ""


def _changes(before: RequestVersion, after: RequestVersion) -> list[Change]:
    labels = {
        "amount": "How many",
        "valid_from": "From",
        "valid_until": "Until",
        "justification": "What it is for",
    }
    return [
        Change(label, getattr(before, name), getattr(after, name))
        for name, label in labels.items()
        if getattr(before, name) != getattr(after, name)
    ]


def _table(answer: dict[str, Any]) -> dict[str, Any]:
    """Rows of the what-if: a label and a figure for each choice."""
    amounts = answer["question"]["amounts"]
    heads = ["As it is", *(f"+{amount}" for amount in amounts[1:])]
    teams = [
        {**team, "cells": list(zip(team["p50_s"], team["p90_s"], strict=True))}
        for team in answer["teams"]
    ]
    return {**answer, "heads": heads, "teams": teams}


@page("POST")
def request_decide(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Take the step under way; 409 shows who was faster."""
    viewer, now = viewer_of(request), timezone.now()
    found = select.get_visible_request(viewer, pk)
    form = DecideForm(request.POST)
    if not form.is_valid():
        return _show(request, found, decide_form=form)
    try:
        done = decide_request(actor=viewer, request_id=pk, now=now, **form.said(now))
    except (NotFound, Forbidden):
        raise
    except Conflict as refused:
        messages.warning(request, refused.detail)
        return _show(request, select.get_visible_request(viewer, pk), status=409)
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        return _show(request, found, decide_form=form)
    messages.success(request, f"{done}: {REQUEST_WORDS[done.state].lower()}.")  # type: ignore[index]
    return redirect("requests:detail", pk=pk)


def _act(
    request: HttpRequest,
    pk: int,
    form: forms.Form,
    act: Callable[[QuotaRequest], str],
    place: str = "",
) -> HttpResponseBase:
    """Do what a form asks; a refusal is said on the page, a conflict with 409."""
    viewer = viewer_of(request)
    found = select.get_visible_request(viewer, pk)
    kept: dict[str, Any] = {place: form} if place else {}
    if not form.is_valid():
        messages.error(request, "Something is missing; look at the fields.")
        return _show(request, found, **kept)
    try:
        messages.success(request, act(found))
    except (NotFound, Forbidden):
        raise
    except Conflict as refused:
        messages.warning(request, refused.detail)
        return _show(request, select.get_visible_request(viewer, pk), status=409)
    except DomainError as refused:
        if place and refused.field in form.fields:
            form.add_error(refused.field, refused.detail)
        else:
            messages.error(request, refused.detail)
        return _show(request, select.get_visible_request(viewer, pk), **kept)
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
        revoke_granted(actor=viewer_of(request), request_id=found.pk, version=version)
        return f"What {found} granted is revoked. What runs goes on."

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
        amount = offer_of(found).amount
        row = whatif.ask_whatif(actor=viewer_of(request), request=found, amount=amount, now=now)
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
        return _show(request, found, status=refused.status if refused.status == 409 else 200)
    messages.success(request, f"{made} is a draft for the time afterwards. Look at it and submit.")
    return redirect("requests:detail", pk=made.pk)
