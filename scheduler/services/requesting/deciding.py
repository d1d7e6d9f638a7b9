"""Deciding: approve, approve less or shorter, deny, ask back; once a version, never one's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import pictured, record
from scheduler.models import QuotaRequest, RequestDecision, RequestVersion, WhatIf
from scheduler.selectors.requesting.rules import routing_of
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.requesting.amounts import cost_of_asking
from scheduler.services.requesting.checks import LONGEST_WORDS
from scheduler.services.requesting.granting import carry_out
from scheduler.services.requesting.policies import rule_of
from scheduler.services.requesting.rights import (
    consents,
    lock_accounts_of,
    locked_row,
    refuse_archived,
    require_decider,
    stale,
)  # fmt: skip
from scheduler.services.requesting.routing import enter_step, still_to_do
from scheduler.services.requesting.timeline import note, tell_asker
from scheduler.services.transitions import move_request
from scheduler.states import (
    DENY_WORDS,
    REVIEW_STATES,
    DenyReason,
    Outcome,
    RequestState,
    ReviewStep,
    amount_words,
    moment_words,
)

# The person who decides, and in whose place, if in anybody's.
Who: TypeAlias = tuple[User, User | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What somebody says; `amount` and `valid_until` count for LESS alone, None leaves as it is."""

    outcome: Outcome
    amount: int | None = None
    valid_until: datetime | None = None
    reason_code: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """What is on the table: as asked, or what an earlier step made of it."""

    amount: int
    valid_from: datetime
    valid_until: datetime
    is_less: bool

    def seen_of(self, request: QuotaRequest) -> QuerySet[WhatIf]:
        """The simulations of just this, the newest first."""
        of_it = WhatIf.objects.filter(request=request, revision=request.revision)
        return of_it.filter(amount=self.amount, valid_until=self.valid_until)


def offer_of(request: QuotaRequest) -> Offer:
    """The version in force, cut down by the last consent to it."""
    asked = next(one for one in request.versions.all() if one.number == request.revision)
    last = next(reversed(consents(request)), None)
    if last is None or last.amount is None or last.valid_until is None:
        return Offer(asked.amount, asked.valid_from, asked.valid_until, False)
    is_less = last.amount < asked.amount or last.valid_until < asked.valid_until
    return Offer(last.amount, asked.valid_from, last.valid_until, is_less)


@transaction.atomic
def decide_request(
    *,
    actor: User,
    request_id: int,
    version: int,
    outcome: str,
    amount: int | None = None,
    valid_until: datetime | None = None,
    reason_code: str = "",
    comment: str = "",
    now: datetime | None = None,
) -> QuotaRequest:
    """Take the step under way. Raises Conflict (409) with the winner if somebody was faster.

    The same person sending the same once more changes nothing and gets what is stored.
    """
    now = now or timezone.now()
    request = locked_row(request_id)
    before = request.decisions.filter(version=version).first()
    said = (outcome, amount, valid_until, reason_code, comment.strip())
    if before is not None and before.decided_by_id == actor.pk and before.says(*said):
        return request
    if request.version != version or before is not None:
        raise stale(request)
    if request.state not in REVIEW_STATES:
        raise Conflict(f"{request} waits for no decision now.", code="not_in_review")
    step, giver = require_decider(actor, request)
    lock_accounts_of(request)
    offer = offer_of(request)
    verdict = _checked(offer, outcome, amount, valid_until, reason_code, comment, now)
    _store(request, (actor, giver), step, offer, verdict, now)
    if verdict.outcome is Outcome.DENY:
        _deny(request, (actor, giver), verdict, now)
    elif verdict.outcome is Outcome.ASK:
        _ask_back(request, (actor, giver), verdict, now)
    else:
        _agree(request, (actor, giver), offer, verdict, now)
    return request


def _checked(
    offer: Offer,
    outcome: str,
    amount: int | None,
    valid_until: datetime | None,
    reason_code: str,
    comment: str,
    now: datetime,
) -> Verdict:
    if outcome not in set(Outcome):
        raise Invalid(f"Choose one of {', '.join(Outcome)}.", field="outcome")
    words = comment.strip()
    if len(words) > LONGEST_WORDS:
        raise Invalid(f"Write at most {LONGEST_WORDS} characters.", field="comment")
    said = Outcome(outcome)
    if said is Outcome.DENY:
        if reason_code not in set(DenyReason):
            raise Invalid(f"Say why: choose one of {', '.join(DenyReason)}.", field="reason_code")
        if reason_code == DenyReason.OTHER and not words:
            raise Invalid("Say which other reason.", field="comment")
        return Verdict(said, reason_code=reason_code, comment=words)
    if said is Outcome.ASK:
        if not words:
            raise Invalid("Write your question.", field="comment")
        return Verdict(said, comment=words)
    if said is Outcome.APPROVE:
        return Verdict(said, offer.amount, offer.valid_until, comment=words)
    less = offer.amount if amount is None else amount
    until = offer.valid_until if valid_until is None else valid_until
    if not 1 <= less <= offer.amount:
        raise Invalid(f"Give a whole number from 1 to {offer.amount}.", field="amount")
    if timezone.is_naive(until) or not max(now, offer.valid_from) < until <= offer.valid_until:
        raise Invalid(
            f"Choose an end after its begin and by {moment_words(offer.valid_until)}.",
            field="valid_until",
        )
    if less == offer.amount and until == offer.valid_until:
        raise Invalid("This is no less than what is asked for; approve it.", field="amount")
    return Verdict(said, less, until, comment=words)


def _store(
    request: QuotaRequest,
    who: Who,
    step: ReviewStep,
    offer: Offer,
    verdict: Verdict,
    now: datetime,
) -> None:
    """The row; its cost is that of what was said yes to, else of what was asked."""
    amount, until = verdict.amount or offer.amount, verdict.valid_until or offer.valid_until
    cost = cost_of_asking(
        request.kind,
        amount,
        request.pool,
        request.gpu_model,
        valid_from=offer.valid_from,
        valid_until=until,
        now=now,
        team=request.team_id,
    )
    stored = RequestDecision.objects.create(
        request=request,
        version=request.version,
        revision=request.revision,
        step=step,
        outcome=verdict.outcome,
        amount=verdict.amount,
        valid_until=verdict.valid_until,
        reason_code=verdict.reason_code,
        comment=verdict.comment,
        monthly_cost=cost.monthly,
        currency=cost.currency,
        decided_by=who[0],
        on_behalf_of=who[1],
        whatif=offer.seen_of(request).filter(progress__in=("done", "empty")).first(),
        at=now,
        **rule_of(request.policy),
    )
    _audit(request, stored)


def _audit(request: QuotaRequest, stored: RequestDecision) -> None:
    """What was decided, by which rule, and what was seen of it beforehand."""
    record(
        stored.decided_by,
        "request.decide",
        request,
        after={
            **pictured(stored, "version", "revision", "step", "outcome", "amount", "valid_until"),
            **pictured(stored, "reason_code", "monthly_cost", "currency"),
            "policy": stored.policy_id,
            "policy_version": stored.policy_version,
            "whatif": stored.whatif.digest if stored.whatif else None,
        },
        on_behalf_of=stored.on_behalf_of,
        reason=stored.comment,
        now=stored.at,
    )


def _deny(request: QuotaRequest, who: Who, verdict: Verdict, now: datetime) -> None:
    came_from = request.state
    _move(request, RequestState.DENIED, touched_at=now, ended_at=now, route=[])
    why = DENY_WORDS[DenyReason(verdict.reason_code)]
    text = f"{why}. {verdict.comment}".strip()
    note(
        request,
        "denied",
        actor=who[0],
        on_behalf_of=who[1],
        now=now,
        came_from=came_from,
        text=text,
    )
    tell_asker(request, "was denied", text, now=now)


def _ask_back(request: QuotaRequest, who: Who, verdict: Verdict, now: datetime) -> None:
    came_from = request.state
    _move(request, RequestState.NEEDS_INFO, touched_at=now, due_at=None)
    note(
        request,
        "question",
        actor=who[0],
        on_behalf_of=who[1],
        now=now,
        came_from=came_from,
        text=verdict.comment,
    )
    tell_asker(request, "has a question for you", verdict.comment, now=now)


def _agree(request: QuotaRequest, who: Who, offer: Offer, verdict: Verdict, now: datetime) -> None:
    """On to the next step, or into force."""
    refuse_archived(request)
    assert verdict.amount is not None and verdict.valid_until is not None
    asked: RequestVersion = request.versions.get(number=request.revision)
    before = request.state
    agreed = amount_words(request.kind, verdict.amount)
    words = f"{agreed} until {moment_words(verdict.valid_until)}"
    text = f"{words}. {verdict.comment}" if verdict.comment else words
    note(
        request,
        "agreed",
        actor=who[0],
        on_behalf_of=who[1],
        now=now,
        came_from=before,
        text=text,
    )
    left = still_to_do(request, asked, verdict.amount, now=now)
    if left:
        hours = routing_of(request.kind).sla_hours
        if not enter_step(request, left, hours, now=now, touched_at=now):
            raise stale(request)
        return
    made = carry_out(
        request,
        who=who,
        amount=verdict.amount,
        valid_from=offer.valid_from,
        valid_until=verdict.valid_until,
        now=now,
    )
    is_less = verdict.amount < asked.amount or verdict.valid_until < asked.valid_until
    state = RequestState.PARTLY_APPROVED if is_less else RequestState.APPROVED
    _move(request, state, touched_at=now, ended_at=now, route=[], **made)
    actor, giver = who
    note(request, "granted", actor=actor, on_behalf_of=giver, now=now, came_from=before, text=words)
    tell_asker(request, "is approved" + (" in part" if is_less else ""), text, now=now)


def _move(request: QuotaRequest, to: RequestState, **fields: object) -> None:
    if not move_request(request, to, version=request.version, **fields):
        raise stale(request)
