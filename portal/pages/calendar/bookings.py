"""What is booked and in maintenance, and booking more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden
from accounts.models import Project, Team, User
from accounts.permissions import can
from portal.forms.cluster.bookings import BookingForm, WindowForm, next_hours
from portal.forms.labels import in_labels, labels_of
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.calendar.week import week_shown
from portal.pages.changing.reasons import done_or_asked, reason_in
from portal.pages.cluster.moments import read_moment
from portal.pages.listing.leaves import leaf_of
from scheduler.models import Pool
from scheduler.selectors.calendar.bookings import (
    bookable_owners,
    get_visible_booking,
)
from scheduler.selectors.cluster import visible_nodes
from scheduler.selectors.freeing.emptying import Holder, emptying
from scheduler.selectors.queues import get_visible_window, planned_views
from scheduler.services.bookings import cancel_booking, plan_booking
from scheduler.services.bookings.checking import check_booking
from scheduler.services.sites.windows import cancel_window, plan_window


@dataclass(frozen=True, slots=True)
class NodeFit:
    """A node that a booking would take, and the jobs that may still be there at its begin."""

    name: str
    late: list[Holder]


@page("GET", "POST")
def booking_list(request: HttpRequest) -> HttpResponseBase:
    """What is planned, booked and given back lately; who leads a team or project books here.

    A POST with `check` says which nodes it would be and what is in the way, and books nothing.
    """
    viewer, now = viewer_of(request), timezone.now()
    # Who books for nobody is shown no form.
    owners, pools = _offered(viewer)
    sent = request.POST if request.method == "POST" else None
    if sent is not None and not owners:
        raise Forbidden(
            "Only who leads a team or project may book for it, and operators. Ask for a booking by "
            "a request."
        )
    problems: list[str] = []
    initial = next_hours(now) | _wished(request, pools, now, problems)
    form = BookingForm(sent, owners=owners, pools=pools, initial=initial)
    fit: list[NodeFit] | None = None
    if sent is not None and form.is_valid():
        wanted = form.wanted()
        wanted |= {"owner": owners[wanted["owner"]], "pool": pools[wanted["pool"]]}
        try:
            if "check" in sent:
                nodes = check_booking(actor=viewer, **wanted)
                fit = _fit(viewer, nodes, wanted["from_at"], now)
            else:
                booking = plan_booking(actor=viewer, **wanted)
                said = f"Booking {booking.pk} is planned; jobs that name it run in it."
                messages.success(request, said)
                return redirect("bookings:list")
        except Forbidden:
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
    window_form = WindowForm(pools=pools, initial=next_hours(now))
    return _render(
        request, viewer, form, window_form, fit=fit, may_book=bool(owners and pools),
        problems=problems,
    )  # fmt: skip


def _wished(
    request: HttpRequest, pools: dict[str, Pool], now: datetime, problems: list[str]
) -> dict[str, Any]:
    """What a link fills into the form: `?pool=`, `?from_at=` and `?until_at=`."""
    wished: dict[str, Any] = {}
    if name := request.GET.get("pool", ""):
        if name in pools:
            wished["pool"] = name
        else:
            remedy = "choose one of the form" if pools else "ask for a booking by a request"
            problems.append(f"pool: there is no pool {name[:63]!r} for you to book; {remedy}.")
    for field in ("from_at", "until_at"):
        if text := request.GET.get(field, ""):
            try:
                wished[field] = read_moment(text, now)
            except ValueError as error:
                problems.append(f"{field}: {error}; choose it in the form.")
    return wished


def _offered(viewer: User) -> tuple[dict[str, Project | Team], dict[str, Pool]]:
    owners, pools = bookable_owners(viewer)
    return {_path(owner): owner for owner in owners}, {pool.name: pool for pool in pools}


@page("POST", back="bookings:list")
def window_plan(request: HttpRequest) -> HttpResponseBase:
    """Plan maintenance; what it meets is said beside the form."""
    viewer, now = viewer_of(request), timezone.now()
    if not can(viewer, "operate", None):
        raise Forbidden("Only operators plan maintenance. Ask one of them.")
    owners, pools = _offered(viewer)
    window_form = WindowForm(request.POST, pools=pools)
    if window_form.is_valid():
        said = dict(window_form.cleaned_data)
        try:
            window = plan_window(actor=viewer, **{**said, "pool": pools[said["pool"]]})
        except Forbidden:
            raise
        except DomainError as refused:
            known = refused.field in window_form.fields
            words = in_labels(refused.detail, labels_of(window_form))
            window_form.add_error(refused.field if known else None, words)
        else:
            messages.success(request, f"Maintenance {window.pk} is planned; no job will be there.")
            return redirect("bookings:list")
    form = BookingForm(owners=owners, pools=pools, initial=next_hours(now))
    return _render(request, viewer, form, window_form, may_book=bool(owners and pools))


@page("POST")
def window_cancel(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Call maintenance off, or end it before its time."""
    viewer = viewer_of(request)
    if not can(viewer, "operate", None):
        raise Forbidden("Only operators call maintenance off. Ask one of them.")
    window = get_visible_window(viewer, pk)

    def act() -> str:
        cancel_window(actor=viewer, window=window)
        return f"Maintenance {pk} is called off."

    return said_and_back(request, act, "bookings:list")


def _render(
    request: HttpRequest,
    viewer: User,
    form: BookingForm,
    window_form: WindowForm,
    *,
    may_book: bool,
    fit: list[NodeFit] | None = None,
    problems: Sequence[str] = (),
) -> HttpResponseBase:
    now, problems = timezone.now(), list(problems)
    week = week_shown(request, viewer, problems, now=now)
    views, windows = planned_views(viewer, now=now, names=week["node_names"])
    context = week | {
        "problems": problems,
        "form": form,
        "window_form": window_form,
        "fit": fit,
        "may_book": may_book,
        "may_operate": can(viewer, "operate", None),
        "views": leaf_of(request, views, "page"),
        "windows": leaf_of(request, windows, "windows"),
        "now": now,
    }
    return render(request, "bookings/list.html", context)


def _fit(viewer: User, nodes: list[int], from_at: datetime, now: datetime) -> list[NodeFit]:
    """Who runs there now and may still be there when the booking begins."""
    chosen = [node for node in visible_nodes(viewer) if node.pk in nodes]
    ends = emptying(viewer, chosen, now=now)
    return [
        NodeFit(node.name, [one for one in ends[node.pk].holders if one.latest > from_at])
        for node in chosen
    ]


@page("POST")
def booking_cancel(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Give one back, as it was when the page was made."""
    viewer = viewer_of(request)
    booking = get_visible_booking(viewer, pk)

    def act() -> str:
        said = reason_in(request)
        cancel_booking(actor=viewer, booking=booking, version=_version(request), reason=said)
        return f"Booking {pk} is given back."

    return done_or_asked(request, act, "bookings:list", verb=f"Give back booking {pk}")


def _version(request: HttpRequest) -> int | None:
    sent = request.POST.get("version", "")
    return int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 10 else None


def _path(owner: Team | Project) -> str:
    return owner.path if isinstance(owner, Project) else owner.slug
