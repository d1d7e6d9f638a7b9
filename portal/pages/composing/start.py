"""Where a job starts from: a text, a file, an earlier job."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from portal.forms.composing.started import start_from
from portal.pages.access import page, viewer_of
from portal.pages.composing.offers import offer_for
from portal.pages.listing.leaves import leaf_of
from scheduler.selectors.composing.drafts import drafts_of
from scheduler.selectors.composing.templates import visible_templates
from scheduler.selectors.jobs import own_jobs
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.spec.document import MAX_DOCUMENT_BYTES

MOST_JOBS = 12
MOST_TEMPLATES = 8


@page("GET", "POST")
def start(request: HttpRequest) -> HttpResponseBase:
    """All ways to begin; a posted text or file opens the composer with what it says."""
    viewer = viewer_of(request)
    text, problems = "", []
    if request.method == "POST":
        offer = offer_for(viewer)
        try:
            text, name = _sent(request)
            own = (viewer.email, viewer.username)
            found = start_from(text, models=offer.models, chosen=offer.chosen(request), own=own)
        except SpecInvalid as refused:
            problems = [f"The {one.field} {one.message}." for one in refused.problems]
        else:
            if name and found.document.get("name") == "job":
                found.initial["name"] = name
            context = {
                "form": offer.form(initial=found.initial),
                "started": found,
                "is_prefilled": True,
                "projects": offer.projects,
                "now": timezone.now(),
            }
            return render(request, "jobs/submit.html", context)
    context = {
        "text": text,
        "problems": problems,
        "jobs": own_jobs(viewer)[:MOST_JOBS],
        "drafts": leaf_of(request, drafts_of(viewer), "page", size=MOST_JOBS),
        "templates": visible_templates(viewer)[:MOST_TEMPLATES],
    }
    return render(request, "composing/start.html", context)


def _sent(request: HttpRequest) -> tuple[str, str]:
    """The text, and what to call the job after: a file goes before what was pasted. Raises
    SpecInvalid for a file that is too large to be read."""
    file = request.FILES.get("file")
    if file is None:
        return request.POST.get("text", "").replace("\r\n", "\n"), ""
    raw = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(raw) > MAX_DOCUMENT_BYTES:
        size = f"is larger than {MAX_DOCUMENT_BYTES // 1024} KiB; leave out of it what is no job"
        raise SpecInvalid([SpecProblem("file", size)])
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        messages.warning(request, "The file is no UTF-8 text; odd bytes are shown as \ufffd.")
        text = raw.decode("utf-8", "replace")
    return text, str(file.name or "").rpartition(".")[0][:128]
