"""Reports that are sent by themselves: the list, a form for a new one, an end."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden, NotFound
from portal.forms.schedules import ScheduleForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.selectors.books.catalogue import REPORTS, reports_for
from scheduler.selectors.books.schedules import get_visible_schedule, schedules_for
from scheduler.services.mailing import create_schedule, end_schedule


@page("GET", "POST")
def schedules(request: HttpRequest) -> HttpResponseBase:
    """The viewer's schedules, all of them for those who read the books."""
    viewer = viewer_of(request)
    form = ScheduleForm(request.POST or None).offer(viewer, reports_for(viewer))
    if request.method == "POST" and form.is_valid():
        sent = dict(form.cleaned_data)
        filters = {"team": sent.pop("team")}
        try:
            made = create_schedule(actor=viewer, filters=filters, **sent)
            title = REPORTS[made.slug].title
            messages.success(request, f"{title} is sent {made.get_rhythm_display()}.")
            return redirect("finance:schedules")
        except NotFound:
            form.add_error("team", "There is no such team for you.")
        except Forbidden:
            raise
        except DomainError as refused:
            name = refused.field if refused.field in form.fields else None
            form.add_error(name, refused.detail)
    found = leaf_of(request, schedules_for(viewer), "page")
    found = found.made(lambda row: (row, REPORTS[row.slug].title))
    context = {"schedules": found, "form": form, "now": timezone.now()}
    return render(request, "finance/schedules.html", context)


@page("POST")
def schedule_end(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Send it no more."""
    viewer = viewer_of(request)
    found = get_visible_schedule(viewer, pk)

    def act() -> str:
        end_schedule(actor=viewer, schedule=found)
        return f"{REPORTS[found.slug].title} is sent no more."

    return said_and_back(request, act, "finance:schedules")
