"""One proposal to cancel many jobs: what it names, and the second person's answer."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.errors import Invalid
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.selectors.requesting.cancels import get_visible_cancel, jobs_named, left_of
from scheduler.services.seconding.deciding import (
    MOST_SAID,
    agree_to_cancel,
    refuse_to_cancel,
    withdraw_cancel,
)
from scheduler.states.seconding import ALONE_AT_MOST

# With more of them their list is folded; a line beside the answer sums them up.
_JOBS_A_PAGE = 25


@page("GET")
def cancel_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """What was proposed, by whom and why, the jobs it names, and the answer."""
    viewer, now = viewer_of(request), timezone.now()
    seen = get_visible_cancel(viewer, pk, now=now)
    rows = leaf_of(request, jobs_named(viewer, seen.proposal), "page", size=_JOBS_A_PAGE)
    context = {
        "seen": seen,
        "proposal": seen.proposal,
        "left": left_of(viewer, seen.proposal),
        "rows": rows,
        "is_folded": len(rows) > _JOBS_A_PAGE and not request.GET.get("page"),
        "alone_at_most": ALONE_AT_MOST,
        "most": MOST_SAID,
        "now": now,
    }
    return render(request, "requests/cancel.html", context)


@page("POST")
def cancel_decide(request: HttpRequest, pk: int) -> HttpResponseBase:
    """`answer`: agree, refuse (with a reason) or withdraw."""
    viewer = viewer_of(request)
    proposal = get_visible_cancel(viewer, pk, now=timezone.now()).proposal

    def act() -> str:
        answer = request.POST.get("answer", "")
        if answer == "agree":
            done = agree_to_cancel(actor=viewer, proposal=proposal)
            more = f" {done.left_out} had ended before." if done.left_out else ""
            return f"Ended: {done.ended} of {done.named} jobs; what runs has time to save.{more}"
        if answer == "refuse":
            reason = request.POST.get("reason", "")
            refuse_to_cancel(actor=viewer, proposal=proposal, reason=reason)
            return "Refused. The jobs stay."
        if answer != "withdraw":
            raise Invalid("answer: choose agree, refuse or withdraw.", field="answer")
        withdraw_cancel(actor=viewer, proposal=proposal)
        return "Taken back. The jobs stay."

    return said_and_back(request, act, "cancels:detail", pk)
