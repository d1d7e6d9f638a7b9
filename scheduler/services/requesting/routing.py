"""Who has to agree: the steps a request takes, and the way from one to the next."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Sum

from scheduler.models import QuotaRequest, RequestDecision, RequestVersion
from scheduler.selectors.requesting.rules import Routing, routing_of
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.requesting.amounts import cost_of_asking, free_envelope
from scheduler.services.requesting.granting import carry_out
from scheduler.services.requesting.policies import rule_of
from scheduler.services.requesting.rights import (
    askers,
    can_be_shared_out,
    consents,
    deciders,
    have_said_yes,
    lock_accounts_of,
    owner_of,
)
from scheduler.services.requesting.timeline import note, tell_asker, tell_deciders
from scheduler.services.transitions import move_request
from scheduler.states import STATE_OF_STEP, Outcome, RequestKind, RequestState, ReviewStep

# Which step a rule's own decision is, and for how long it counts against what the rule may give.
_POLICY = "policy"
_COUNTED_FOR = timedelta(days=30)


def steps_for(
    request: QuotaRequest, asked: RequestVersion, amount: int, routing: Routing, *, now: datetime
) -> list[ReviewStep]:
    """Within what the team has free its lead decides; above it an administrator too, for money
    finance instead; above the money limit finance too. A step that nobody else could take is left
    out. Raises Invalid.
    """
    steps = _steps_by_rule(request, asked, amount, routing, now=now)
    return that_people_can_take(request, steps)


def _steps_by_rule(
    request: QuotaRequest, asked: RequestVersion, amount: int, routing: Routing, *, now: datetime
) -> list[ReviewStep]:
    """The same, whoever there is to take them."""
    envelope = free_envelope(
        owner_of(request),
        RequestKind(request.kind),
        request.pool,
        request.gpu_model,
        start=asked.valid_from,
        until=asked.valid_until,
        now=now,
    )
    is_within = envelope is None or amount <= envelope
    steps = [ReviewStep.LEAD]
    is_money = request.kind == RequestKind.MONEY
    if routing.always_admin or not (is_within or is_money):
        steps.append(ReviewStep.ADMIN)
    cost = cost_of_asking(
        request.kind,
        amount,
        request.pool,
        request.gpu_model,
        valid_from=asked.valid_from,
        valid_until=asked.valid_until,
        now=now,
        team=request.team_id,
    ).monthly
    is_dear = cost is not None and routing.money_limit is not None and cost > routing.money_limit
    if is_dear or (is_money and not is_within):
        steps.append(ReviewStep.FINANCE)
    return steps


def that_people_can_take(
    request: QuotaRequest, steps: list[ReviewStep], *, besides: Set[int] = frozenset()
) -> list[ReviewStep]:
    """Leave out the lead where only the asker or administrators lead, and what is left over.

    `besides`: ids of more people who have had their say. Raises Invalid where nobody is left.
    """
    out = askers(request) | besides
    people = {step: deciders(step, request.team) - out for step in ReviewStep}
    # An administrator may do all that leads may; that makes no lead of them.
    if ReviewStep.LEAD in steps and not people[ReviewStep.LEAD] - people[ReviewStep.ADMIN]:
        steps = [step for step in steps if step is not ReviewStep.LEAD] or [ReviewStep.ADMIN]
        if ReviewStep.ADMIN not in steps:
            steps.insert(0, ReviewStep.ADMIN)
    # Of money, who keeps the books has the last word.
    is_money = request.kind == RequestKind.MONEY and ReviewStep.FINANCE in steps
    least_needed = ReviewStep.ADMIN if is_money else ReviewStep.FINANCE
    for dropped in (least_needed, ReviewStep.LEAD):
        if not can_be_shared_out([people[step] for step in steps]) and len(steps) > 1:
            steps = [step for step in steps if step is not dropped]
    if not can_be_shared_out([people[step] for step in steps]):
        raise Invalid(
            "Nobody besides you could decide on this. Ask an administrator to appoint somebody.",
            field="owner",
        )
    return steps


def begin_review(request: QuotaRequest, *, now: datetime) -> bool:
    """Route a submitted request by the rules of today; False if another hand was faster."""
    asked = request.versions.get(number=request.revision)
    routing = routing_of(request.kind)
    is_automatic = _is_automatic(request, asked, routing)
    if is_automatic:
        lock_accounts_of(request)
    steps = steps_for(request, asked, asked.amount, routing, now=now)
    if is_automatic and steps == [ReviewStep.LEAD] and _has_left(request, asked, routing, now):
        try:
            with transaction.atomic():
                return _agree_by_policy(request, asked, routing, now=now)
        except (Conflict, Invalid):
            # What cannot be granted just now is for people to look at.
            request.refresh_from_db()
    return enter_step(request, steps, routing.sla_hours, now=now, policy=routing.row)


def _is_automatic(request: QuotaRequest, asked: RequestVersion, routing: Routing) -> bool:
    """Whether a rule for just this kind agrees by itself; nobody's own rule does so for them."""
    row, most = routing.row, routing.auto_up_to
    if row is None or most is None or asked.amount > most:
        return False
    return row.created_by_id is not None and row.created_by_id not in askers(request)


def _has_left(
    request: QuotaRequest, asked: RequestVersion, routing: Routing, now: datetime
) -> bool:
    """Whether rules have agreed to so little for the team lately that this fits, too: an amount
    asked for in parts is one. Call under the team's lock."""
    agreed = RequestDecision.objects.filter(
        step=_POLICY,
        request__kind=request.kind,
        request__team=request.team_id,
        at__gt=now - _COUNTED_FOR,
    ).aggregate(sum_=Sum("amount"))["sum_"]
    return (agreed or 0) + asked.amount <= (routing.auto_up_to or 0)


def _agree_by_policy(
    request: QuotaRequest, asked: RequestVersion, routing: Routing, *, now: datetime
) -> bool:
    """Into force at once. The record names the rule, and no person."""
    row = routing.row
    assert row is not None
    times: dict[str, Any] = {
        "valid_from": asked.valid_from,
        "valid_until": asked.valid_until,
        "now": now,
    }
    what = (request.kind, asked.amount, request.pool, request.gpu_model)
    cost = cost_of_asking(*what, team=request.team_id, **times)
    words = f"agreed to by rule {row.pk}: up to {routing.auto_up_to} of this kind"
    RequestDecision.objects.create(
        request=request,
        version=request.version,
        revision=request.revision,
        step=_POLICY,
        outcome=Outcome.APPROVE,
        amount=asked.amount,
        valid_until=asked.valid_until,
        comment=words,
        monthly_cost=cost.monthly,
        currency=cost.currency,
        at=now,
        **rule_of(row),
    )
    made = carry_out(request, who=(None, None), amount=asked.amount, **times)
    came_from = request.state
    moved = move_request(
        request,
        RequestState.APPROVED,
        version=request.version,
        route=[],
        policy=row,
        **{"touched_at": now, "ended_at": now, **made},
    )
    if not moved:
        raise Conflict("Somebody else was faster. Look at it again.", code="stale_version")
    facts = {"by": "policy", "policy": row.pk, "auto_up_to": row.auto_up_to}
    note(request, "granted", actor=None, now=now, came_from=came_from, text=words, facts=facts)
    tell_asker(request, "is approved", f"{words}.", now=now)
    return True


def enter_step(
    request: QuotaRequest,
    steps: Sequence[ReviewStep],
    sla_hours: int,
    *,
    now: datetime,
    **fields: object,
) -> bool:
    """Let the first of `steps` begin: its time runs, and those who may take it are told.

    Whom an earlier step was assigned to has no part in this one.
    """
    came_from = request.state
    moved = move_request(
        request,
        STATE_OF_STEP[steps[0]],
        version=request.version,
        route=[str(step) for step in steps],
        step_at=now,
        due_at=_due_at(request, sla_hours, now),
        reminded_at=None,
        escalated_at=None,
        **{"assigned_to": None, **fields},
    )
    if moved:
        facts = {"route": request.route, "policy": request.policy_id}
        note(request, "routed", actor=None, now=now, came_from=came_from, facts=facts)
        tell_deciders(request, "step", "waits for you", now=now)
    return moved


def _due_at(request: QuotaRequest, sla_hours: int, now: datetime) -> datetime:
    """When the step's time is over: of a booking by its begin at the latest, if that is to come."""
    usual = now + timedelta(hours=sla_hours)
    if request.kind != RequestKind.RESERVATION:
        return usual
    begins = request.versions.get(number=request.revision).valid_from
    return min(usual, begins) if begins > now else usual


def still_to_do(
    request: QuotaRequest, asked: RequestVersion, amount: int, *, now: datetime
) -> list[ReviewStep]:
    """The steps after the one under way. What has changed since may add some, never take any.

    The same lead who agreed may have given the room away meanwhile, and prices may have risen. What
    others have agreed to, or would have to take who has had a say already, is not added; nor is a
    lead, who was asked or left out.
    """
    left = [ReviewStep(step) for step in request.route[1:]]
    needed = _steps_by_rule(request, asked, amount, routing_of(request.kind), now=now)
    done = {ReviewStep.LEAD, *(one.step for one in consents(request))}
    out = askers(request) | have_said_yes(request)
    people = {step: deciders(step, request.team) - out for step in ReviewStep}
    for more in needed:
        steps = [step for step in ReviewStep if step is more or step in left]
        if more not in done and can_be_shared_out([people[step] for step in steps]):
            left = steps
    return left
