"""Handing a request to one of those who may decide on it: a wish, and never a right."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import User
from scheduler.models import QuotaRequest
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.requesting.rights import (
    WHO,
    acts_in_place_of,
    askers,
    deputies,
    have_said_yes,
    locked_request,
    may_decide,
    may_take,
    people_for,
)
from scheduler.services.requesting.timeline import note, tell_assigned
from scheduler.states import REVIEW_STATES, ReviewStep


@transaction.atomic
def assign_request(
    *, actor: User, request_id: int, version: int, to: str, now: datetime | None = None
) -> QuotaRequest:
    """Ask one person by name to take the step under way; an empty name: again whoever may.

    Others may decide as before, and what they have seen stays the version they decide on. Raises
    Conflict, Forbidden, Invalid.
    """
    now = now or timezone.now()
    request = locked_request(request_id, version)
    if request.state not in REVIEW_STATES:
        raise Conflict(f"{request} waits for no decision now.", code="not_in_review")
    giver = _require_assigner(actor, request)
    person = _person(to.strip(), request) if to.strip() else None
    before = request.assigned_to
    if before == person:
        return request
    request.assigned_to = person
    request.touched_at = now
    request.save(update_fields=["assigned_to", "touched_at"])
    event = note(
        request,
        "assigned",
        actor=actor,
        on_behalf_of=giver,
        now=now,
        text=f"to {_called(person)}" if person else "to nobody in particular",
        facts={"assigned_to": person and person.get_username()},
        was={"assigned_to": before and before.get_username()},
    )
    if person is not None and person != actor:
        tell_assigned(request, person, actor, number=event.pk, now=now)
    return request


def may_assign(actor: User, request: QuotaRequest) -> bool:
    """Whether `assign_request` would let this person name somebody."""
    if request.state not in REVIEW_STATES:
        return False
    try:
        _require_assigner(actor, request)
    except Forbidden:
        return False
    return True


def people_to_assign(request: QuotaRequest, *, now: datetime) -> Sequence[User]:
    """Who may be named, by name: those with the right to this step, and who acts for them."""
    step = ReviewStep(request.route[0])
    out = askers(request) | have_said_yes(request)
    people = people_for(step, request.team).exclude(pk__in=out).values("pk")
    acting = deputies(people, step, request.team, now=now)
    theirs = Q(pk__in=people) | Q(pk__in=acting.values("deputy"))
    found = User.objects.filter(theirs, is_active=True).exclude(pk__in=out)
    return list(found.order_by("username"))


def _require_assigner(actor: User, request: QuotaRequest) -> User | None:
    """In whose place, if in anybody's. Who asked does not choose who decides. Raises Forbidden."""
    step = ReviewStep(request.route[0])
    if actor.pk in askers(request):
        raise Forbidden("You asked for this; who decides is chosen by others.")
    if may_take(actor, step, request.team):
        return None
    givers = acts_in_place_of(actor, step, request.team)
    if not givers:
        raise Forbidden(f"This waits for {WHO[step]}, and one of them hands it on.")
    return givers[0]


def _person(username: str, request: QuotaRequest) -> User:
    """Raises Invalid alike for who is not there and for who may not decide."""
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None or not may_decide(person, request):
        step = WHO[ReviewStep(request.route[0])]
        raise Invalid(
            f"“{username[:64]}” is nobody who may decide on this now; name {step} who did not ask.",
            field="to",
        )
    return person


def _called(person: User) -> str:
    return person.get_full_name() or person.get_username()
