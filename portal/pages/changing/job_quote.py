"""What a waiting job will cost, and what it leaves of quotas and budgets."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from scheduler.loop.supposing.quoting import quote_waiting
from scheduler.selectors.one_job.header import job_with_header


@page("GET")
def job_quote(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Cost by the runs that were alike and at most; `?part=answer` is the list alone. For a job
    that waits no more it leads to what it has cost."""
    viewer, now = viewer_of(request), timezone.now()
    is_part = request.GET.get("part") == "answer"
    header = job_with_header(viewer, pk, calls=not is_part)
    context = job_frame(viewer, header) | {"tab": "", "now": now}
    context["quote"] = quote_waiting(viewer, header.job, now=now)
    part = "#answer" if is_part else ""
    return render(request, f"jobs/answers/quote.html{part}", context)
