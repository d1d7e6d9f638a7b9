"""Files of reports that are made in the background: the list, a wish for another, and each file."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import Conflict, DomainError, Forbidden
from portal import limits
from portal.pages.access import page, told_of, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.reports.books.asks import FILTERS, parse_wish
from portal.reports.books.making import ask_file, send_kept
from scheduler.conf import load_conf
from scheduler.selectors.books.catalogue import REPORTS
from scheduler.selectors.kept.reports import get_report_file, report_files_of
from scheduler.services.kept.reports import FOCUS


@page("GET", "POST")
def export_list(request: HttpRequest) -> HttpResponseBase:
    """The viewer's own files; POST with `slug`, `period`, `format` and filters asks for another."""
    if request.method != "POST":
        return _show(request)
    viewer, sent, now = viewer_of(request), request.POST, timezone.now()
    slug, form = sent.get("slug", ""), sent.get("format", "")
    query = {name: sent.get(name, "") for name in FILTERS if sent.get(name)}
    wish = parse_wish({**query, "period": sent.get("period", "")}, now=now)
    try:
        if wish.problems:
            messages.error(request, "; ".join(f"{name}: {words}." for name, words in wish.problems))
            return _show(request, status=422)
        limits.count(limits.EXPORT, viewer.pk)
        ask_file(viewer, slug, wish, form, query, now)
    except Forbidden:
        raise
    except DomainError as refused:
        messages.error(request, told_of(refused, request))
        return _show(request, status=refused.status)
    messages.success(request, "It is being made; the page shows when it is there.")
    return redirect("finance:exports")


@page("GET")
def export_file(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The file, or the part of it a `Range` asks for; 409 with the list where it is not there."""
    viewer = viewer_of(request)
    try:
        row = get_report_file(viewer, pk)
    except Conflict as refused:
        messages.warning(request, refused.detail)
        return _show(request, status=409)
    return send_kept(request, viewer, row)


def _show(request: HttpRequest, *, status: int = 200) -> HttpResponse:
    viewer = viewer_of(request)
    titles = {slug: report.title for slug, report in REPORTS.items()} | {FOCUS: "FOCUS export"}
    rows = leaf_of(request, report_files_of(viewer), "page")
    context = {
        "rows": rows.made(lambda row: (row, titles.get(row.slug, row.slug))),
        "is_waiting": any(row.is_waiting for row in rows),
        "days": load_conf().keep_report_days,
        "now": timezone.now(),
    }
    return render(request, "finance/exports.html", context, status=status)
