"""The bar above the table of jobs: one act on those that are marked; many need a typed word."""

from __future__ import annotations

import re
import uuid
from urllib.parse import parse_qsl, urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.pages.access import page, viewer_of
from portal.pages.changing.reasons import reason_in
from portal.pages.seconding import done_or_proposed
from scheduler.models import BulkCancel
from scheduler.selectors.jobs import get_visible_jobs
from scheduler.services.changing.many import MOST_JOBS, Act, Done, act_on_jobs, reason_wanted
from scheduler.services.seconding.proposing import propose_to_cancel_jobs

# More than so many are acted on only after their number was typed.
AT_ONCE = 10
WORDS = {
    Act.CANCEL: ("Cancel", "cancelled or asked to stop"),
    Act.HOLD: ("Hold", "held"),
    Act.RELEASE: ("Release", "released"),
    Act.RERUN: ("Run again", "submitted again"),
}
COMPARE = "compare"
# More than the page compares, so that it says so.
COMPARED_AT_MOST = 20
_NUMBER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_NOT_KEPT = frozenset({"part", "top"})


@page("POST")
def jobs_marked(request: HttpRequest) -> HttpResponseBase:
    """`act` on each `job`, or compare them; above ten a page asks for their number first, for
    others' it asks why, and a cancel of too many of others asks a second person."""
    viewer, sent = viewer_of(request), request.POST
    pairs = parse_qsl(sent.get("query", "")[:4000])
    query = urlencode([pair for pair in pairs if pair[0] not in _NOT_KEPT])
    back = f"{reverse('jobs:list')}?{query or 'q='}"
    numbers = [int(text) for text in dict.fromkeys(sent.getlist("job")) if _NUMBER.fullmatch(text)]
    if sent.get("act") == COMPARE and numbers:
        asked = ",".join(map(str, numbers[:COMPARED_AT_MOST]))
        return redirect(f"{reverse('jobs:compare')}?{urlencode({'id': asked})}")
    if sent.get("act") not in set(Act) or not numbers or len(numbers) > MOST_JOBS:
        messages.error(request, f"Mark 1 to {MOST_JOBS} jobs, then press a button.")
        return redirect(back)
    act = Act(sent["act"])
    jobs = get_visible_jobs(viewer, numbers)
    if len(jobs) > AT_ONCE and sent.get("typed", "").strip() != str(len(jobs)):
        context = {
            "jobs": jobs,
            "act": act,
            "verb": WORDS[act][0],
            "query": query,
            "back": back,
            "key": uuid.uuid4().hex,
            "problem": "typed" in sent,
            "asks_why": reason_wanted(viewer, jobs, act),
            "reason": reason_in(request),
        }
        return render(request, "jobs/answers/marked.html", context)

    def do() -> str:
        key, why = sent.get("key", "")[:64], reason_in(request)
        found = act_on_jobs(actor=viewer, jobs=jobs, act=act, key=key, reason=why)
        _say_refused(request, found)
        count = len(found.jobs)
        return f"{count} job{'' if count == 1 else 's'} {WORDS[act][1]}." if count else ""

    def propose(reason: str) -> BulkCancel:
        return propose_to_cancel_jobs(actor=viewer, jobs=jobs, reason=reason)

    count = len(jobs)
    verb = f"{WORDS[act][0]} {count} job{'' if count == 1 else 's'}"
    return done_or_proposed(request, do, propose, back, verb=verb)


def _say_refused(request: HttpRequest, found: Done) -> None:
    if found.refused:
        said = "; ".join(f"#{job.pk}: {why}" for job, why in found.refused[:5])
        more = len(found.refused) - 5
        messages.warning(request, f"Not done. {said}{f'; and {more} more' if more > 0 else ''}")
