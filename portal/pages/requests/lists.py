"""My requests, a new one, and what waits for me."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import Conflict, DomainError, Forbidden, NotFound
from accounts.models import Project, Team, User
from accounts.permissions import can
from accounts.selectors import submittable_projects
from portal.forms.grammar.sorts import read_sort
from portal.forms.requests import AskForm
from portal.pages.access import choice, page, viewer_of
from portal.pages.listing.heads import heads_of
from portal.pages.listing.leaves import leaf_of
from portal.pages.requests.foreseen import foreseen, wish_of
from scheduler.selectors import requesting as select
from scheduler.selectors.ordered.columns import REQUEST_COLUMNS
from scheduler.selectors.requesting.cancels import SeenCancel, seen_cancels
from scheduler.services.requesting.asking import ask_for_quota
from scheduler.services.requesting.deciding import decide_request, offer_of
from scheduler.services.requesting.foreseeing.standing import offered_to, standing_of
from scheduler.states import KIND_WORDS, Outcome, RequestKind, RequestState

_MOST_AT_ONCE = 50
# What one has asked for oneself is not late.
_MINE = {name: column for name, column in REQUEST_COLUMNS.items() if name != "due"}


@page("GET")
def request_list(request: HttpRequest) -> HttpResponseBase:
    """The viewer's own, newest first or by `?sort=`."""
    problems: list[str] = []
    sort = read_sort(request.GET.get("sort", ""), _MINE, "-asked", problems)
    context = {
        "rows": leaf_of(
            request, select.my_requests(viewer_of(request), sort.column, falls=sort.falls), "page"
        ),
        "heads": heads_of(sort, _MINE),
        "problems": problems,
        "words": KIND_WORDS,
    }
    return render(request, "requests/list.html", context)


@page("GET")
def approvals(request: HttpRequest) -> HttpResponseBase:
    """What waits: for the viewer, with `?assigned=me` for nobody else, or with `?state=all` all
    that the viewer may see.
    """
    viewer, now = viewer_of(request), timezone.now()
    is_assigned = choice(request, "assigned", ("me",)) == "me"
    mine_only = choice(request, "state", ("all", "mine")) != "all" or is_assigned
    problems: list[str] = []
    sort = read_sort(request.GET.get("sort", ""), REQUEST_COLUMNS, "due", problems)
    waiting = select.inbox_of(
        viewer,
        sort.column,
        mine_only=mine_only,
        now=now,
        is_assigned=is_assigned,
        falls=sort.falls,
    )
    rows = leaf_of(request, waiting, "page")
    context = {
        "rows": rows,
        "heads": heads_of(sort, REQUEST_COLUMNS),
        "problems": problems,
        "mine_only": mine_only,
        "is_assigned": is_assigned,
        "words": KIND_WORDS,
        "has_small": any(row.is_mine and row.is_small for row in rows),
        "small": select.SMALL_GPUS,
        "cancels": leaf_of(request, _cancels(viewer, now, mine_only, is_assigned), "cancels"),
        "may_see_rules": can(viewer, "read_settings", None),
        "now": now,
    }
    return render(request, "requests/inbox.html", context)


def _cancels(viewer: User, now: datetime, mine_only: bool, is_assigned: bool) -> list[SeenCancel]:
    """Cancels of many jobs that wait: those that the viewer may answer, or all to be seen."""
    if is_assigned:
        return []
    seen = seen_cancels(viewer, now=now, only_waiting=True)
    return [one for one in seen if "agree" in one.actions or not mine_only]


@page("POST")
def approve_several(request: HttpRequest) -> HttpResponseBase:
    """Agree to the small ones that are marked, each at the version that was shown; the others wait
    for somebody who opens them.
    """
    viewer, now = viewer_of(request), timezone.now()
    done, refused = 0, []
    for mark in request.POST.getlist("request")[:_MOST_AT_ONCE]:
        number, _, version = mark.partition(".")
        if not (mark.isascii() and len(mark) < 40 and number.isdecimal() and version.isdecimal()):
            continue
        try:
            found = select.get_visible_request(viewer, int(number))
            if not select.is_small(found, offer_of(found).amount):
                raise Conflict("Open it and decide there: it is not a small one.")
            decide_request(
                actor=viewer,
                request_id=found.pk,
                version=min(int(version), 2**31 - 1),
                outcome=Outcome.APPROVE,
                now=now,
            )
            done += 1
        except DomainError as problem:
            refused.append(f"REQ-{int(number)}: {problem.detail}")
    if done:
        messages.success(request, f"{done} approved.")
    for words in refused:
        messages.warning(request, words)
    if not done and not refused:
        messages.warning(request, "Mark at least one request.")
    return redirect("approvals")


@page("GET", "POST")
def request_new(request: HttpRequest) -> HttpResponseBase:
    """The form; `action=estimate` says what it would cost and bring, and nothing is stored."""
    viewer, now = viewer_of(request), timezone.now()
    projects = list(submittable_projects(viewer))
    known: dict[str, Team | Project] = {one.path: one for one in projects}
    known |= {team.slug: team for team in sorted({one.team for one in projects}, key=str)}
    owners = list(known)
    chosen = request.POST.get("owner") or choice(request, "owner", owners)
    owner = chosen if chosen in owners else next(iter(owners), "")
    pools, models = offered_to(viewer)
    form = AskForm.offering(
        request.POST if request.method == "POST" else None,
        owners=owners,
        pools=pools,
        models=models,
        owner=owner,
        now=now,
        kind=choice(request, "kind", tuple(RequestKind)),
    )
    context: dict[str, Any] = {"form": form, "owner": owner, "owners": owners}
    if request.method == "POST" and form.is_valid():
        if request.POST.get("action") == "estimate":
            context["foreseen"] = foreseen(viewer, form, now)
        else:
            made = _made(viewer, form, now, is_draft=request.POST.get("action") == "draft")
            if made is not None:
                words = "kept as a draft" if made.state == RequestState.DRAFT else "on its way"
                messages.success(request, f"{made} is {words}.")
                return redirect("requests:detail", pk=made.pk)
    if owner:
        context["standing"] = standing_of(known[owner], now=now)
        mine = select.my_requests(viewer)
        context["open_ones"] = [(one, text) for one, text in mine if one.route]
    return render(request, "requests/new.html", context)


def _made(viewer: User, form: AskForm, now: datetime, *, is_draft: bool) -> Any:
    try:
        return ask_for_quota(actor=viewer, now=now, is_draft=is_draft, **wish_of(viewer, form, now))
    except (NotFound, Forbidden):
        raise
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        return None
