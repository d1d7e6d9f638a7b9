"""Buttons that put one's own waiting jobs in another order."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from portal.pages.access import page, said_and_back, viewer_of
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.jobs import get_visible_job
from scheduler.services.changing.turns import Turn, order_jobs, turn_job
from scheduler.services.errors import Invalid

_ASKED = re.compile(r"(first|earlier|later):([1-9][0-9]{0,17})", re.ASCII)


@page("POST")
def queue_turn(request: HttpRequest, pool: str) -> HttpResponseBase:
    """`turn=earlier:12` moves job 12 among its owner's; `turn=submit` undoes all of that."""
    viewer = viewer_of(request)
    line = get_visible_pool(viewer, pool)
    asked = request.POST.get("turn", "")
    match = _ASKED.fullmatch(asked)
    job = get_visible_job(viewer, int(match[2])) if match else None

    def act() -> str:
        if asked == "submit":
            order_jobs(actor=viewer, pool=line, jobs=())
            return "Your jobs wait in the order of submit again."
        if match is None or job is None:
            raise Invalid("turn: press one of the buttons beside a job of yours.", field="turn")
        if not turn_job(actor=viewer, job=job, turn=Turn(match[1])):
            return f"Job #{job.pk} stands there already."
        return f"Job #{job.pk} is moved among your own jobs; nobody else's was passed."

    return said_and_back(request, act, f"{reverse('queue:list')}?pool={line.name}")
