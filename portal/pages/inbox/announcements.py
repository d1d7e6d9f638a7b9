"""Announcements: what operators tell everybody, on the home page, for some time."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden, NotFound
from accounts.permissions import can
from portal.forms.cluster.bookings import MomentField
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.selectors.inbox import visible_announcements
from scheduler.services.inbox import announce, end_announcement


class AnnouncementForm(forms.Form):
    """A sentence and its time."""

    text = forms.CharField(max_length=500, help_text="A sentence or two: what, and when.")
    from_at = MomentField(label="From", required=False, help_text="Now, if empty.")
    until_at = MomentField(label="Until")
    is_warning = forms.BooleanField(label="Show as a warning", required=False)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        zone = timezone.get_current_timezone_name()
        self.fields["from_at"].help_text = f"Now, if empty. In {zone}."
        self.fields["until_at"].help_text = f"In {zone}."


@page("GET", "POST")
def announcement_list(request: HttpRequest) -> HttpResponseBase:
    """What everybody is and was told, and a form; for operators, who alone find the page."""
    viewer, now = viewer_of(request), timezone.now()
    if not can(viewer, "operate", None):
        raise NotFound()
    form = AnnouncementForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            announce(actor=viewer, now=now, **form.cleaned_data)
        except (NotFound, Forbidden):
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            return redirect("announcements:list")
    rows = leaf_of(request, visible_announcements(viewer), "page", size=50)
    context = {"form": form, "rows": rows, "now": now}
    return render(request, "inbox/announcements.html", context)


@page("POST")
def announcement_end(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Take one back."""
    viewer = viewer_of(request)
    if not can(viewer, "operate", None):
        raise NotFound()
    row = visible_announcements(viewer).filter(pk=min(pk, 2**63 - 1)).first()
    if row is None:
        raise NotFound()

    def act() -> str:
        end_announcement(actor=viewer, announcement=row)
        return "It is taken back."

    return said_and_back(request, act, "announcements:list")
