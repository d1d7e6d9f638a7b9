"""Months of the books: where each stands, what keeps it from being closed, and what may be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from accounts.errors import Conflict, Invalid
from accounts.models import User
from accounts.permissions import can
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide
from portal.pages.listing.leaves import leaf_of
from portal.pages.signing.again import asks_password
from scheduler.ledger.findings import Finding, Trouble
from scheduler.models import Counting, CountingAct
from scheduler.selectors.books.desk import month_desks, month_names
from scheduler.services.books import (
    CloseBlocked,
    Trial,
    close_period,
    correct_period,
    count_behind,
    reopen_period,
    soft_close_period,
    try_period,
)
from scheduler.services.books.posting import stamp_of

ACTS = ("soft-close", "close", "reopen", "decline", "correct")
CHECK = "check"
MONTHS = 36
_COUNTED = {
    "soft-close": CountingAct.SOFT_CLOSE,
    "close": CountingAct.CLOSE,
    "correct": CountingAct.CORRECT,
}
_BEHIND = "{} is being counted; this page says what comes of it."
# Where each kind of finding is mended.
_MENDED_AT = {
    Trouble.NO_RATE: ("finance:prices", "Set a price"),
    Trouble.FOREIGN_CURRENCY: ("finance:prices", "Look at the prices"),
    Trouble.NO_ATTRIBUTION: ("teams:list", "Look at the projects"),
    Trouble.OVERLAP: ("nodes:list", "Look at the node"),
    Trouble.GAP: ("nodes:list", "Look at the node"),
    Trouble.NEGATIVE_IDLE: ("nodes:list", "Look at the node"),
    Trouble.EARLIER_OPEN: ("finance:periods", "Close that month first"),
}


@page("GET")
def period_list(request: HttpRequest) -> HttpResponseBase:
    """Every month, the latest first, with the buttons that its state allows."""
    return _show(request)


@page("POST", back="finance:periods")
@asks_password
def period_act(request: HttpRequest, month: str, act: str) -> HttpResponseBase:
    """Soft close, close, propose to reopen, reopen or decline, post corrections; as it was seen.

    `check` shows what closing it would say, and writes nothing.
    """
    viewer = viewer_of(request)
    if act == CHECK:
        return _tried(request, viewer, month)
    if act not in ACTS:
        raise Http404
    blocked: list[Finding] = []

    def done() -> str:
        try:
            return _done(viewer, month, act, request)
        except CloseBlocked as refused:
            blocked.extend(refused.findings)
            raise

    return decide(request, done, _show, "finance:periods", blocked=blocked)


def _tried(request: HttpRequest, viewer: User, month: str) -> HttpResponseBase:
    try:
        is_behind = count_behind(actor=viewer, act=CountingAct.CHECK, period=month) is not None
        trial = None if is_behind else try_period(actor=viewer, period=month)
    except Invalid:
        raise Http404 from None
    except Conflict as refused:
        messages.warning(request, refused.detail)
        return _show(request, status=409)
    if trial is None:
        messages.success(request, _BEHIND.format(month))
        return redirect("finance:periods")
    return _show(request, trial=trial)


def _done(viewer: User, month: str, act: str, request: HttpRequest) -> str:
    asked: dict[str, Any] = {"actor": viewer, "period": month}
    seen, reason = request.POST.get("seen", ""), request.POST.get("reason", "")
    if act in _COUNTED and count_behind(**asked, act=_COUNTED[act], seen=seen, reason=reason):
        return _BEHIND.format(month)
    if act == "soft-close":
        soft_close_period(**asked, seen=seen)
        return f"{month} is soft closed: late usage still counts, nobody posts by hand."
    if act == "close":
        close = close_period(**asked, seen=seen)
        return f"{month} is closed as version {close.version}."
    if act == "reopen":
        row = reopen_period(**asked, seen=seen, reason=reason)
        if row.reopen_proposed_by_id:
            return f"Reopening {month} is proposed; another person has to agree."
        return f"{month} is reopened; close it again when it is right."
    if act == "decline":
        reopen_period(**asked, seen=seen, decline=True)
        return f"{month} stays closed; nobody proposes to reopen it any more."
    entries = correct_period(**asked, reason=reason)
    return f"{len(entries)} corrections of {month} are posted." if entries else "Nothing differs."


def _show(
    request: HttpRequest,
    *,
    status: int = 200,
    blocked: Sequence[Finding] = (),
    trial: Trial | None = None,
) -> HttpResponse:
    viewer, now = viewer_of(request), timezone.now()
    months = leaf_of(request, month_names(viewer, now=now), "page", size=MONTHS).made_together(
        lambda names: month_desks(viewer, names, now=now)
    )
    context = {
        "months": months.made(lambda desk: (desk, stamp_of(desk.period), _told(desk.counting))),
        "is_counting": any(desk.is_counting for desk in months),
        "may_act": can(viewer, "keep_books", None),
        "me": viewer.pk,
        "blocked": [
            (finding, *_mended(finding)) for finding in (trial.blocked if trial else blocked)
        ],
        "trial": trial,
        "now": now,
    }
    is_part = request.GET.get("part") == "months"
    template = "finance/months/_months.html" if is_part else "finance/months/periods.html"
    return render(request, template, context, status=status)


def _told(counting: Counting | None) -> list[tuple[Finding, str, str]]:
    found = counting.found.get("findings", ()) if counting is not None else ()
    findings = [Finding(Trouble(f["trouble"]), f["subject"], f["words"]) for f in found]
    return [(finding, *_mended(finding)) for finding in findings]


def _mended(finding: Finding) -> tuple[str, str]:
    route, words = _MENDED_AT.get(finding.trouble, ("", ""))
    return (reverse(route) if route else "", words)
