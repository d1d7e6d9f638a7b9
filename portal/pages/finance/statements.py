"""One statement as a sheet of paper: the page prints as it stands; below it what was said of it."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide
from portal.reports.books.opened import check_words
from scheduler.selectors.books.papers import (
    Paper,
    PaperLine,
    PaperProject,
    paper_of,
    require_statement,
)
from scheduler.services.books import disputing
from scheduler.states import hour_places

ACTS = ("send", "dispute", "answer", "settle")


@page("GET")
def statement(request: HttpRequest, number: int) -> HttpResponseBase:
    """Its lines by project, what they come to, and how it can be checked."""
    return _show(request, number=number)


@page("POST")
def statement_act(request: HttpRequest, number: int, act: str) -> HttpResponseBase:
    """Send it to its leads, dispute it, answer a dispute, or note that it is settled."""
    viewer = viewer_of(request)
    if act not in ACTS:
        raise Http404
    require_statement(viewer, number)
    text = request.POST.get("text", "")
    return decide(
        request,
        lambda: _done(viewer, number, act, text),
        _show,
        "finance:statement",
        number,
        number=number,
    )


def _done(viewer: User, number: int, act: str, text: str) -> str:
    if act == "send":
        count = disputing.send_statement(actor=viewer, number=number)
        return f"It goes to {count} {'person' if count == 1 else 'people'} by mail."
    if act == "dispute":
        disputing.dispute_statement(actor=viewer, number=number, text=text)
        return "It is disputed; those who keep the books answer."
    if act == "answer":
        disputing.answer_dispute(actor=viewer, number=number, text=text)
        return "It is answered."
    disputing.settle_statement(actor=viewer, number=number)
    return "It is settled."


def _show(request: HttpRequest, *, number: int, status: int = 200) -> HttpResponse:
    paper = paper_of(viewer_of(request), number)
    context = {
        "paper": paper,
        "projects": [
            (project, [(line, _trace(paper, project, line)) for line in project.lines])
            for project in paper.projects
        ],
        "places": hour_places(line.gpu_seconds for each in paper.projects for line in each.lines),
        "checks": [(check.holds, check_words(check)) for check in paper.checks],
        "now": timezone.now(),
    }
    return render(request, "finance/statement.html", context, status=status)


def _trace(paper: Paper, project: PaperProject, line: PaperLine) -> str:
    """What narrows a report to the rows behind a line; empty where no time is behind it."""
    if not (project.path and line.flavour and line.kind == "usage"):
        return ""
    sku = f"{line.flavour}:{line.meter}"
    asked = {"period": paper.period, "project": project.path, "sku": sku, "rate": line.rate}
    return urlencode({name: value for name, value in asked.items() if value})
