"""One statement as a sheet of paper: the page prints as it stands."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from portal.pages.access import page, viewer_of
from portal.reports.books.opened import check_words
from scheduler.selectors.books.papers import paper_of


@page("GET")
def statement(request: HttpRequest, number: int) -> HttpResponseBase:
    """Its lines by project, what they come to, and how it can be checked."""
    paper = paper_of(viewer_of(request), number)
    context = {
        "paper": paper,
        "checks": [(check.holds, check_words(check)) for check in paper.checks],
        "now": timezone.now(),
    }
    return render(request, "finance/statement.html", context)
