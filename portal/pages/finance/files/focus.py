"""Closed months for FinOps tools: a list, and an archive for each month and version of FOCUS."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.errors import Conflict
from accounts.services.audit import Subject, record
from portal import limits
from portal.pages.access import page, viewer_of
from portal.reports.books.focus_files import focus_archive
from portal.reports.streams import StreamedFile
from scheduler.ledger.focus.columns import DEFAULT_VERSION, VERSIONS
from scheduler.selectors.books.overview import books_overview


@page("GET")
def focus_list(request: HttpRequest) -> HttpResponseBase:
    """The months there are, with an archive for each version where they are closed."""
    viewer, now = viewer_of(request), timezone.now()
    overview = books_overview(viewer, now)
    if not overview.is_bookkeeper:
        raise PermissionDenied("This is for those who keep or audit the books.")
    context = {
        "months": [month for month in overview.months if month.version],
        "versions": VERSIONS,
        "default": DEFAULT_VERSION,
        "now": now,
    }
    return render(request, "finance/focus.html", context)


@page("GET")
def focus_download(request: HttpRequest, period: str, version: str) -> HttpResponseBase:
    """The archive of a closed month; that it left the house is recorded."""
    viewer = viewer_of(request)
    limits.count(limits.EXPORT, viewer.pk)
    try:
        blocks = focus_archive(viewer, period, version)
    except (ValueError, Conflict) as refused:
        raise Http404(str(refused)) from None
    about = Subject("export", period, f"FOCUS {version} of {period}")
    record(viewer, "export.focus", about, after={"period": period, "focus_version": version})
    name = f"focus-{version}-{period}.zip"
    return StreamedFile(blocks, name=name, content_type="application/zip")
