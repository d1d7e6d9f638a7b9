"""What time does to requests: reminders, escalation, expiry, renewal."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from accounts.models import User
from accounts.services.audit import record
from scheduler.models import Budget, QuotaRequest
from scheduler.selectors.requesting.rules import routing_of
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.requesting.amounts import BUDGET_KINDS, budget_at
from scheduler.services.requesting.asking import ask_for_quota
from scheduler.services.requesting.granting import take_back
from scheduler.services.requesting.rights import (
    askers,
    deciders,
    deputies_of,
    have_said_yes,
    owner_of,
)
from scheduler.services.requesting.routing import enter_step, that_people_can_take
from scheduler.services.requesting.timeline import (
    link_to,
    mail,
    note,
    tell_asker,
    tell_deciders,
    title_of,
)
from scheduler.services.transitions import move_request
from scheduler.states import (
    OPEN_REQUEST_STATES,
    REVIEW_STATES,
    NoticeKind,
    Outcome,
    RequestKind,
    RequestState,
    ReviewStep,
    moment_words,
)

EXPIRE_AFTER = timedelta(days=30)
# A rule may give a step longer than that; who is late is told before it expires.
_AFTER_ITS_TIME = timedelta(days=7)


def tend_requests(*, now: datetime) -> dict[str, int]:
    """Remind at half of a step's time, escalate at its end, close what nobody touches, take back
    GPU-hours and money whose time is over.

    Idempotent: each does something once, whoever calls how often.
    """
    waiting = QuotaRequest.objects.filter(state__in=list(REVIEW_STATES))
    done = {"reminded": 0, "escalated": 0, "expired": 0, "returned": 0}
    over = QuotaRequest.objects.filter(returns_at__lte=now).order_by("id")
    for pk in list(over.values_list("pk", flat=True)):
        done["returned"] += take_back(pk, now=now)
    late = waiting.filter(Q(escalated_at=None) | Q(state=RequestState.LEAD_REVIEW), due_at__lte=now)
    for pk in list(late.values_list("pk", flat=True)):
        done["escalated"] += _with_row(pk, _escalate, now)
    undecided = waiting.filter(reminded_at=None, due_at__gt=now, step_at__isnull=False)
    for request in list(undecided.only("pk", "step_at", "due_at")):
        assert request.step_at is not None
        assert request.due_at is not None
        if now >= request.step_at + (request.due_at - request.step_at) / 2:
            done["reminded"] += _with_row(request.pk, _remind, now)
    open_ones = QuotaRequest.objects.filter(state__in=OPEN_REQUEST_STATES)
    old = open_ones.filter(
        Q(due_at=None) | Q(due_at__lte=now - _AFTER_ITS_TIME), touched_at__lte=now - EXPIRE_AFTER
    )
    # Of hours that are over nothing can be booked any more.
    past = open_ones.filter(
        kind=RequestKind.RESERVATION,
        versions__number=F("revision"),
        versions__valid_until__lte=now,
    )
    for pk in sorted({*old.values_list("pk", flat=True), *past.values_list("pk", flat=True)}):
        done["expired"] += _with_row(pk, _expire, now)
    return done


def _with_row(pk: int, act: object, now: datetime) -> bool:
    with transaction.atomic():
        request = (
            QuotaRequest.objects.select_for_update(of=("self",))
            .select_related("team", "project__team")
            .get(pk=pk)
        )
        return bool(act(request, now))  # type: ignore[operator]


def _remind(request: QuotaRequest, now: datetime) -> bool:
    if request.reminded_at is not None or request.state not in REVIEW_STATES:
        return False
    QuotaRequest.objects.filter(pk=request.pk).update(reminded_at=now)
    tell_deciders(request, "reminder", "still waits for you", now=now)
    note(request, "reminded", actor=None, now=now)
    return True


def _escalate(request: QuotaRequest, now: datetime) -> bool:
    """A lead's step goes to who acts for the leads, and half as much time later, or at once where
    nobody does, to the administrators, who then decide in the lead's stead.
    """
    if request.due_at is None or request.due_at > now or request.state not in REVIEW_STATES:
        return False
    if request.state == RequestState.LEAD_REVIEW:
        if request.escalated_at is None and _ask_deputies(request, now):
            return True
        steps = _without_lead(request)
        if not steps:
            return _tell_lead_again(request, now)
        if not enter_step(request, steps, routing_of(request.kind).sla_hours, now=now):
            return False
        note(request, "escalated", actor=None, now=now, text="No lead has answered in time.")
        return True
    if request.escalated_at is not None:
        return False
    QuotaRequest.objects.filter(pk=request.pk).update(escalated_at=now)
    admins = (_deputies_for(request, now) | deciders(ReviewStep.ADMIN, request.team)) - askers(
        request
    )
    words = f"{title_of(request)} has waited longer than it should."
    mail(
        admins,
        request=request,
        kind=NoticeKind.REQUEST_WAITING,
        key=f"request:{request.pk}:{request.version}:late",
        subject=f"{request}: {title_of(request)} is late",
        text=f"{words}\n\n{link_to(request)}\n",
        said=words,
        now=now,
    )
    note(request, "escalated", actor=None, now=now, text="Nobody has answered in time.")
    return True


def _without_lead(request: QuotaRequest) -> list[ReviewStep]:
    """The steps once no lead has answered, each of which another person can take; else none."""
    left = [ReviewStep(step) for step in request.route[1:]]
    steps = left if ReviewStep.ADMIN in left else [ReviewStep.ADMIN, *left]
    try:
        return that_people_can_take(request, steps, besides=have_said_yes(request))
    except Invalid:
        return []


def _tell_lead_again(request: QuotaRequest, now: datetime) -> bool:
    """Once: nobody else could decide, so it stays where it is."""
    if request.escalated_at is not None:
        return False
    QuotaRequest.objects.filter(pk=request.pk).update(escalated_at=now)
    tell_deciders(request, "late", "is late, and nobody else can decide on it", now=now)
    text = "No lead has answered in time, and nobody else can decide."
    note(request, "escalated", actor=None, now=now, text=text)
    return True


def _deputies_for(request: QuotaRequest, now: datetime) -> set[int]:
    """Who may take the step under way in somebody's place, and has no part in it yet."""
    out = askers(request) | have_said_yes(request)
    step = ReviewStep(request.route[0])
    people = deciders(step, request.team) - out
    return deputies_of(people, step, request.team, now=now) - out


def _ask_deputies(request: QuotaRequest, now: datetime) -> bool:
    """Once: those who act for the leads have half of a step's time, from now on, of a booking until
    its begin at the latest. False: nobody, or it has begun."""
    until = now + timedelta(hours=routing_of(request.kind).sla_hours) / 2
    if request.kind == RequestKind.RESERVATION:
        until = min(until, request.versions.get(number=request.revision).valid_from)
    people = _deputies_for(request, now) if until > now else set()
    if not people:
        return False
    QuotaRequest.objects.filter(pk=request.pk).update(escalated_at=now, due_at=until)
    words = f"{title_of(request)} was answered by no lead in time; you act for one of them."
    mail(
        people,
        request=request,
        kind=NoticeKind.REQUEST_WAITING,
        key=f"request:{request.pk}:{request.version}:deputies",
        subject=f"{request}: {title_of(request)} waits for you",
        text=f"{words}\n\nLook and decide: {link_to(request)}\n",
        said=words,
        now=now,
    )
    text = "No lead has answered in time; those who act for them are asked."
    note(request, "escalated", actor=None, now=now, text=text)
    return True


def _expire(request: QuotaRequest, now: datetime) -> bool:
    """What somebody did until the row was locked counts: it is asked anew."""
    if request.state not in OPEN_REQUEST_STATES:
        return False
    is_due = request.due_at is not None and request.due_at > now - _AFTER_ITS_TIME
    if request.touched_at <= now - EXPIRE_AFTER and not is_due:
        text = f"Nobody has touched it for {EXPIRE_AFTER.days} days."
    elif _are_hours_over(request, now):
        text = "Nobody has decided before its hours were over."
    else:
        return False
    came_from = request.state
    moved = move_request(
        request, RequestState.EXPIRED, version=request.version, ended_at=now, route=[]
    )
    if moved:
        note(request, "expired", actor=None, now=now, came_from=came_from, text=text)
        tell_asker(request, "has expired", text, now=now)
    return moved


def _are_hours_over(request: QuotaRequest, now: datetime) -> bool:
    """Of a booking that is asked for; nothing else has hours."""
    if request.kind != RequestKind.RESERVATION:
        return False
    return request.versions.get(number=request.revision).valid_until <= now


@transaction.atomic
def renew_request(*, actor: User, request: QuotaRequest, now: datetime) -> QuotaRequest:
    """A draft for the time after what was granted, as long again; the caller has looked at rights.

    Raises Conflict, Forbidden, and Invalid as every request.
    """
    if actor.pk != request.asked_by_id:
        raise Forbidden("Only the person who asked may renew it.")
    amount, began, ends = _had(request)
    open_one = QuotaRequest.objects.filter(renews=request, state__in=OPEN_REQUEST_STATES).first()
    if open_one is not None:
        return open_one
    start = max(now, ends)
    until = start + (ends - began)
    if request.kind in BUDGET_KINDS:
        until = min(until, _budget_then(request, start).valid_until)
    asked = request.versions.get(number=request.revision)
    made = ask_for_quota(
        actor=actor,
        owner=owner_of(request),
        kind=request.kind,
        pool=request.pool,
        gpu_model=request.gpu_model,
        amount=amount,
        valid_from=start,
        valid_until=until,
        justification=f"Renewal of {request}: {asked.justification}"[:4096],
        is_draft=True,
        renews=request,
        now=now,
    )
    record(actor, "request.renew", made, after={"renews": str(request)}, now=now)
    return made


def _had(request: QuotaRequest) -> tuple[int, datetime, datetime]:
    """How much was granted, from when until when. Raises Conflict if nothing was."""
    booked = request.booking
    if booked is not None and not booked.closed_as:
        said = request.decisions.filter(outcome__in=(Outcome.APPROVE, Outcome.LESS)).last()
        assert said is not None
        assert said.amount is not None
        return said.amount, booked.from_at, booked.until_at
    grant = request.granted
    if grant is not None and grant.revoked_at is None:
        fields = {"guaranteed": grant.guaranteed, "borrow": grant.borrow_limit}
        fields["walltime"] = grant.max_hours
        amount = fields.get(request.kind, grant.maximum)
        return amount, grant.valid_from, grant.valid_until
    said = request.decisions.filter(outcome__in=(Outcome.APPROVE, Outcome.LESS)).last()
    if request.budget_id is None or said is None or said.amount is None or not said.valid_until:
        raise Conflict("There is no grant to renew.", code="no_grant")
    began = max(request.versions.get(number=request.revision).valid_from, said.at)
    ends = said.valid_until
    if request.budget is not None:
        ends = min(ends, request.budget.valid_until)
    return said.amount, began, ends


def _budget_then(request: QuotaRequest, start: datetime) -> Budget:
    """The budget to add to. Raises Conflict while there is none for the time afterwards."""
    is_money = request.kind == RequestKind.MONEY
    budget = budget_at(owner_of(request), start, is_money=is_money)
    if budget is None:
        raise Conflict(
            f"There is no budget from {moment_words(start)} on that this could be added to. "
            "Renew it once the next one is there.",
            code="no_limit",
        )
    return budget
