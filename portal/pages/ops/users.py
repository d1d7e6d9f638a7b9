"""Everybody who has an account: found, looked at, let in no longer and again."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.selectors.addresses import decided_by, open_change_of
from accounts.services.ending.access import reactivate_person
from accounts.services.identities.reading import identity_of
from portal.forms.people import OthersAddressForm
from portal.pages.access import page, said_and_back, viewer_of
from scheduler.selectors.people.everybody import STANDINGS, everybody, get_somebody
from scheduler.selectors.requesting.cancels import cancel_of_person
from scheduler.services.errors import Invalid
from scheduler.services.people.leaving import end_access
from scheduler.states.seconding import ALONE_AT_MOST

PAGE = 50
JOBS = ("go", "cancel")


def counted(many: int, what: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{many} {what}" if many == 1 else f"{many} {what}s"


@page("GET")
def user_list(request: HttpRequest) -> HttpResponseBase:
    """`?q=` in names, addresses and teams, `?state=` active or inactive; by user name, and
    `?after=` is the one behind which a page begins. For administrators."""
    viewer, asked = viewer_of(request), request.GET
    text = asked.get("q", "").replace("\x00", "").strip()[:100]
    after = asked.get("after", "").replace("\x00", "")[:150]
    standing, problems = asked.get("state", ""), []
    if standing and standing not in STANDINGS:
        problems.append("state: choose active or inactive.")
        standing = ""
    found = everybody(viewer, text=text, standing=standing, after=after, limit=PAGE + 1)
    context = {
        "rows": found[:PAGE],
        "following": found[PAGE - 1].username if len(found) > PAGE else "",
        "q": text,
        "state": standing,
        "after": after,
        "problems": problems,
    }
    return render(request, "ops/users.html", context)


@page("GET")
def user_detail(request: HttpRequest, username: str) -> HttpResponseBase:
    """One person, and what ends if they are let in no longer."""
    viewer = viewer_of(request)
    person = get_somebody(viewer, username)
    context = {
        "person": person,
        "identity": identity_of(viewer, person),
        "address_form": OthersAddressForm(),
        "address_change": open_change_of(viewer, person),
        "address_by": decided_by(person),
        "now": timezone.now(),
        "provider_name": settings.OIDC_NAME,
        "is_oneself": person.pk == viewer.pk,
        "seen": cancel_of_person(viewer, person, now=timezone.now()),
        "alone_at_most": ALONE_AT_MOST,
    }
    return render(request, "ops/user.html", context)


@page("POST")
def user_out(request: HttpRequest, username: str) -> HttpResponseBase:
    """Let somebody in no longer; `jobs` go on or are cancelled."""
    viewer = viewer_of(request)
    person = get_somebody(viewer, username)

    def act() -> str:
        jobs, reason = request.POST.get("jobs", ""), request.POST.get("reason", "")
        if jobs not in JOBS:
            raise Invalid("jobs: choose go or cancel.", field="jobs")
        left = end_access(actor=viewer, user=person, reason=reason, cancel_jobs=jobs == "cancel")
        if left.proposal is not None:
            waits = f"{left.proposal.named} jobs go on until a second person agrees to cancel them"
            return f"{person.get_full_name()} can no longer sign in. Their {waits}."
        ended = [
            counted(left.ended.tokens, "API token"),
            counted(left.ended.sessions, "browser session"),
            counted(left.cancelled, "job"),
        ]
        words = f"{person.get_full_name()} can no longer sign in. Ended: {', '.join(ended)}."
        if left.schedules:
            paused = counted(left.schedules, "schedule")
            words += f" Paused: {paused}, which a lead of the team may take over."
        if left.refused:
            refused = counted(left.refused, "job")
            words += f" {refused} could not be cancelled just now; see the list of jobs."
        return words

    return said_and_back(request, act, "users:detail", username)


@page("POST")
def user_in(request: HttpRequest, username: str) -> HttpResponseBase:
    """Let somebody in again."""
    viewer = viewer_of(request)
    person = get_somebody(viewer, username)

    def act() -> str:
        reactivate_person(actor=viewer, user=person, reason=request.POST.get("reason", ""))
        return f"{person.get_full_name()} can sign in again. API tokens have to be made anew."

    return said_and_back(request, act, "users:detail", username)
