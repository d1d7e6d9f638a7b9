"""The inbox of notifications, by what they are about; and where each kind reaches its reader."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from portal.forms.filters import read_cursor, unknown_parameters, write_cursor
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.selectors.inbox import choices_of, grouped, muted_by, visible_notifications
from scheduler.selectors.inbox.sight import seen_by, subjects_seen_by
from scheduler.selectors.watching.watches import watched_by
from scheduler.services.inbox import choose_kind, mark_read, mute, unmute

PAGE_SIZE = 100
_PARAMETERS = ("cursor", "part", "show")


@page("GET")
def notification_list(request: HttpRequest) -> HttpResponseBase:
    """The latest, by thing, without what is about something that the viewer may not see any more;
    `?show=unread` leaves out what was read. `?part=bell`: the bell."""
    viewer = viewer_of(request)
    if request.GET.get("part") == "bell":
        return render(request, "components/_bell.html", {})
    problems, before = [], None
    try:
        before = read_cursor(request.GET.get("cursor", ""))
    except ValueError as error:
        problems.append(f"cursor: is {error}; open the list from its beginning.")
    show = request.GET.get("show", "")
    if show not in ("", "unread"):
        problems.append(f"show: {show[:40]!r} is not known; write unread or leave it out.")
    rows = visible_notifications(viewer)
    rows = rows.filter(read_at__isnull=True) if show == "unread" else rows
    rows = rows.order_by("-pk")
    found = list((rows.filter(pk__lt=before) if before else rows)[: PAGE_SIZE + 1])
    shown = found[:PAGE_SIZE]
    seen = seen_by(viewer, shown)
    # All are all of them, not those of this page and older ones.
    first = rows.first() if before else next(iter(shown), None)
    context = {
        "groups": grouped(seen),
        "left_out": len(shown) - len(seen),
        "newest": first.pk if first else 0,
        "show": show if show == "unread" else "",
        "problems": problems,
        "unknown": unknown_parameters(request.GET, _PARAMETERS),
        "next_cursor": write_cursor(shown[-1].pk) if len(found) > PAGE_SIZE else "",
        "now": timezone.now(),
    }
    is_list = request.GET.get("part") == "list"
    return render(request, "inbox/list.html#list" if is_list else "inbox/list.html", context)


@page("POST")
def notification_read(request: HttpRequest) -> HttpResponseBase:
    """Mark as read what is about `subject`, or all up to `up_to`."""
    up_to = request.POST.get("up_to", "")
    mark_read(
        actor=viewer_of(request),
        subject=request.POST.get("subject", ""),
        up_to=int(up_to) if up_to.isascii() and up_to.isdigit() and len(up_to) < 19 else None,
    )
    return redirect(_list_of(request))


def _list_of(request: HttpRequest) -> str:
    """The address of the list that the button stood in."""
    return reverse("notifications:list") + "?show=unread" * (request.GET.get("show") == "unread")


@page("POST")
def notification_mute(request: HttpRequest) -> HttpResponseBase:
    """Say no more of `subject`; with `again=yes` do so again."""
    viewer, subject = viewer_of(request), request.POST.get("subject", "")[:40]
    if request.POST.get("again") == "yes":
        unmute(actor=viewer, subject=subject)
        messages.success(request, "You are told of it again.")
        return redirect("notification_settings")

    def act() -> str:
        row = mute(actor=viewer, subject=subject)
        return f"You are told no more of this: {row.title}."

    return said_and_back(request, act, _list_of(request))


@page("GET", "POST")
def notification_settings(request: HttpRequest) -> HttpResponseBase:
    """For each kind: in the inbox, by mail; what is watched, and what is muted."""
    viewer = viewer_of(request)
    choices = choices_of(viewer)
    if request.method == "POST":
        for choice in (one for one in choices if one.is_open):
            in_inbox = f"inbox-{choice.kind}" in request.POST
            by_mail = f"mail-{choice.kind}" in request.POST
            if (in_inbox, by_mail) != (choice.in_inbox, choice.by_mail):
                choose_kind(actor=viewer, kind=choice.kind, in_inbox=in_inbox, by_mail=by_mail)
        messages.success(request, "Saved.")
        return redirect("notification_settings")
    muted = leaf_of(request, muted_by(viewer), "page")
    context = {
        "choices": choices,
        "muted": muted,
        "named": subjects_seen_by(viewer, {row.subject for row in muted}),
        "watched": leaf_of(request, watched_by(viewer), "watched"),
    }
    return render(request, "inbox/settings.html", context)
