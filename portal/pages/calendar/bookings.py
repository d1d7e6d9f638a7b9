"""What is booked and in maintenance, and booking more."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden
from accounts.models import Project, Team
from portal.forms.cluster.bookings import BookingForm, next_hours
from portal.pages.access import page, said_and_back, viewer_of
from scheduler.selectors.calendar.bookings import (
    bookable_owners,
    booking_views,
    get_visible_booking,
)
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.queues import window_views
from scheduler.services.bookings import cancel_booking, plan_booking


@page("GET", "POST")
def booking_list(request: HttpRequest) -> HttpResponseBase:
    """What is planned, booked and given back lately; who leads a team or project books here."""
    viewer, now = viewer_of(request), timezone.now()
    owners = {_path(owner): owner for owner in bookable_owners(viewer)}
    pools = {pool.name: pool for pool in visible_pools(viewer)}
    sent = request.POST if request.method == "POST" else None
    if sent is not None and not owners:
        raise Forbidden("Only who leads a team or project may book for it, and operators.")
    form = BookingForm(sent, owners=owners, pools=pools, initial=next_hours(now))
    if sent is not None and form.is_valid():
        wanted = form.wanted()
        wanted |= {"owner": owners[wanted["owner"]], "pool": pools[wanted["pool"]]}
        try:
            booking = plan_booking(actor=viewer, **wanted)
        except Forbidden:
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            said = f"Booking {booking.pk} is planned; jobs that name it run in it."
            messages.success(request, said)
            return redirect("bookings:list")
    context = {
        "form": form,
        "may_book": bool(owners and pools),
        "views": booking_views(viewer, now=now, with_past=True),
        "windows": window_views(viewer, now=now),
        "now": now,
    }
    return render(request, "bookings/list.html", context)


@page("POST")
def booking_cancel(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Give one back, as it was when the page was made."""
    viewer = viewer_of(request)
    booking = get_visible_booking(viewer, pk)

    def act() -> str:
        cancel_booking(actor=viewer, booking=booking, version=_version(request))
        return f"Booking {pk} is given back."

    return said_and_back(request, act, "bookings:list")


def _version(request: HttpRequest) -> int | None:
    sent = request.POST.get("version", "")
    return int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 10 else None


def _path(owner: Team | Project) -> str:
    return owner.path if isinstance(owner, Project) else owner.slug
