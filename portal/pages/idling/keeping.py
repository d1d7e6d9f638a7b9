"""Saying on a job's page that it is still needed, though its GPUs do little."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.changing.reasons import reason_in
from scheduler.selectors.jobs import get_visible_job
from scheduler.services.errors import Invalid
from scheduler.services.idling.keeping import keep_job


@page("POST")
def job_keep(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Keep it for some hours, with a reason."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        text = request.POST.get("hours", "").strip()
        if not (text.isascii() and text.isdigit() and len(text) < 5):
            raise Invalid("Write whole hours, such as 4.", field="hours")
        keep_job(actor=viewer, job=job, hours=int(text), reason=reason_in(request))
        return f"Job #{pk} is kept for {int(text)} h: nothing follows if its GPUs do little."

    return said_and_back(request, act, "jobs:detail", pk)
