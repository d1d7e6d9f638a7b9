"""One request: its text and what changed in it, its history, what it would do, and the decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import Conflict, DomainError, Forbidden, NotFound
from portal.forms.requests import (
    AssignForm,
    DecideForm,
    TextForm,
    WishForm,
    days_between,
    hours_between,
)
from portal.pages.access import page, viewer_of
from portal.templatetags.moments import absolute
from scheduler.models import QuotaRequest, RequestVersion
from scheduler.selectors import requesting as select
from scheduler.services.requesting.amounts import FIELD_OF
from scheduler.services.requesting.assigning import may_assign, people_to_assign
from scheduler.services.requesting.deciding import decide_request, offer_of
from scheduler.services.requesting.foreseeing.standing import Standing, standing_of
from scheduler.services.requesting.granting import is_in_force, may_revoke
from scheduler.services.requesting.rights import has_part, require_decider
from scheduler.states import (
    FINAL_REQUEST_STATES,
    KIND_WORDS,
    REQUEST_WORDS,
    REVIEW_STATES,
    RequestKind,
    RequestState,
    amount_words,
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
    """Looking changes nothing. `?part=whatif` is the simulation alone, while it is worked out."""
    found = select.get_request_to_read(viewer_of(request), pk, now=timezone.now())
    return show(request, found)


def show(
    request: HttpRequest, found: QuotaRequest, *, status: int = 200, **extra: Any
) -> HttpResponseBase:
    """The page of a request, with forms as they were sent in `extra`."""
    viewer, now = viewer_of(request), timezone.now()
    select.read_history(found)
    versions = list(found.versions.all())
    asked = versions[-1]
    may_decide, why_not = _may_decide(viewer, found)
    is_mine = found.asked_by_id == viewer.pk
    is_past = not (has_part(viewer, found) or select.sees_all(viewer))
    offer = offer_of(found)
    had_part_until = _last_said(viewer, found) if is_past and not is_mine else None
    decisions = _until(found.decisions.all(), had_part_until)
    row = None if is_past else offer.seen_of(found).first()
    standing = None if is_past else _standing_of(found, now)
    if found.state in FINAL_REQUEST_STATES and decisions and not is_past:
        row = decisions[-1].whatif or row  # as the last one had seen it, whatever was asked since
    context = {
        "asked": asked,
        "changes": _changes(found.kind, versions),
        "what": KIND_WORDS[RequestKind(found.kind)],
        "state_words": REQUEST_WORDS[RequestState(found.state)],
        "events": _until(found.events.all(), had_part_until),
        "whatif": row,
        "from_to": _from_to(found, asked, standing),
        "table": _table(row.answer) if row is not None and row.answer else None,
        "standing": standing,
        "may_decide": may_decide,
        "why_not": why_not,
        "may_revoke": is_in_force(found, now) and may_revoke(viewer, found),
        "may_renew": is_mine and not is_past and _can_be_renewed(found),
        "decisions": decisions,
        "offer": offer,
        "assign_form": _assign_form(viewer, found, now),
        "decide_form": DecideForm(initial={"version": found.version}),
        "comment_form": TextForm(),
        "is_mine": is_mine,
        "entry": "requests:list" if is_mine else "approvals",
        "is_past": is_past,
        "is_open": found.state not in FINAL_REQUEST_STATES,
        "is_draft": found.state == RequestState.DRAFT,
        "wish_form": _wish_form(found, asked) if is_mine and not is_past else None,
        "booking_state": found.booking.state_at(now) if found.booking else "",
        "is_booking": found.kind == RequestKind.RESERVATION,
        "now": now,
    }
    is_part = request.GET.get("part") == "whatif"
    template = "requests/_whatif.html" if is_part else "requests/detail.html"
    return render(request, template, {"req": found, **context, **extra}, status=status)


def _can_be_renewed(found: QuotaRequest) -> bool:
    """Whether something was granted and nobody has ended it, or taken its limit away."""
    if found.state not in _GRANTED:
        return False
    if found.granted is not None:
        return found.granted.revoked_at is None
    if found.booking is not None:
        return not found.booking.closed_as
    return found.budget_id is not None


def _last_said(viewer: Any, found: QuotaRequest) -> datetime:
    """When this person, who has no part in it any more, decided on it last."""
    said = (one.at for one in found.decisions.all() if one.decided_by_id == viewer.pk)
    return max(said, default=found.created_at)


def _until(rows: Iterable[Any], moment: datetime | None) -> list[Any]:
    """What was there at that moment; None: all."""
    return [one for one in rows if moment is None or one.at <= moment]


def _standing_of(found: QuotaRequest, now: datetime) -> Standing:
    used = getattr(found, "used_gpu_s", None)
    return standing_of(found.project or found.team, now=now, used_gpu_s=used)


def _from_to(found: QuotaRequest, asked: RequestVersion, standing: Standing | None) -> str:
    """`from 8 to 16`: the limit that an open one adds to, and with it; nothing where there is
    none."""
    field = FIELD_OF.get(RequestKind(found.kind))
    if field is None or standing is None or found.state in FINAL_REQUEST_STATES:
        return ""
    for row in standing.rows:
        scope = (row.quota.pool_id, row.quota.gpu_model, row.is_team)
        now = getattr(row.limits, field)
        if scope == (found.pool_id, found.gpu_model, found.project_id is None) and now is not None:
            return f"from {now:,} to {now + asked.amount:,}"
    return ""


def _wish_form(found: QuotaRequest, asked: RequestVersion) -> WishForm:
    between = hours_between if found.kind == RequestKind.RESERVATION else days_between
    times = between(asked.valid_from, asked.valid_until)
    words = {"amount": asked.amount, "justification": asked.justification}
    return WishForm(initial={**words, **times})


def _assign_form(viewer: Any, found: QuotaRequest, now: datetime) -> AssignForm | None:
    if not may_assign(viewer, found):
        return None
    whose = found.assigned_to.get_username() if found.assigned_to else ""
    return AssignForm.offering(
        people_to_assign(found, now=now), {"version": found.version, "to": whose}
    )


def _may_decide(viewer: Any, found: QuotaRequest) -> tuple[bool, str]:
    if found.state not in REVIEW_STATES:
        return False, ""
    try:
        require_decider(viewer, found)
    except Forbidden as refused:
        return False, refused.detail
    return True, ""


def _changes(
    kind: str, versions: Sequence[RequestVersion]
) -> list[tuple[RequestVersion, list[Change]]]:
    """Each version but the first, with what it says otherwise than the one before it."""
    return [(after, _between(kind, before, after)) for before, after in pairwise(versions)]


def _between(kind: str, before: RequestVersion, after: RequestVersion) -> list[Change]:
    labels = {
        "amount": "How many",
        "valid_from": "From",
        "valid_until": "Until",
        "justification": "What it is for",
    }
    return [
        Change(label, _shown(kind, getattr(before, name)), _shown(kind, getattr(after, name)))
        for name, label in labels.items()
        if getattr(before, name) != getattr(after, name)
    ]


def _shown(kind: str, value: object) -> object:
    if isinstance(value, int):
        return amount_words(kind, value)
    return absolute(value) if isinstance(value, datetime) else value


def _table(answer: dict[str, Any]) -> dict[str, Any]:
    """Rows of the what-if: a label and a figure for each choice."""
    amounts = answer["question"]["amounts"]
    heads = ["As it is", *(f"+{amount}" for amount in amounts[1:])]
    teams = [
        {**team, "cells": list(zip(team["p50_s"], team["p90_s"], strict=True))}
        for team in answer["teams"]
    ]
    return {**answer, "heads": heads, "teams": teams, "slower": select.teams_slower(answer)}


@page("POST")
def request_decide(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Take the step under way; 409 shows who was faster."""
    viewer, now = viewer_of(request), timezone.now()
    found = select.get_visible_request(viewer, pk)
    form = DecideForm(request.POST)
    if not form.is_valid():
        return show(request, found, decide_form=form)
    try:
        done = decide_request(actor=viewer, request_id=pk, now=now, **form.said(now))
    except (NotFound, Forbidden):
        raise
    except Conflict as refused:
        messages.warning(request, refused.detail)
        return show(request, select.get_visible_request(viewer, pk), status=409)
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        return show(request, found, decide_form=form)
    words = REQUEST_WORDS[RequestState(done.state)]
    messages.success(request, f"{done}: {words.lower()}.")
    return redirect("requests:detail", pk=pk)
