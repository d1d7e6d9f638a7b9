"""Ends of prices and of whole cards: proposed by one person, approved by another.

A decision locks the card first, the proposal then: of two people at once one gets a 409 that names
the other.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, moment_words
from accounts.models import Rate, RateCard, RateDecision, RateEnding, User
from accounts.permissions import can, people_who_can
from accounts.selectors.rate_ends import paid_after
from accounts.services.audit import pictured, record
from accounts.services.rate_ends import (
    check_moment,
    check_span,
    decided_already,
    end_rates,
    lock_card,
    to_end,
)


@transaction.atomic
def propose_end(
    *,
    actor: User,
    rate: Rate | None = None,
    card: RateCard | None = None,
    valid_until: datetime | None = None,
    now: datetime | None = None,
) -> RateEnding:
    """Propose that a price, or every price of a team's card, ends at `valid_until`; without it the
    moment it is approved.

    Holds at once only where nobody else keeps the books. Raises Forbidden; Conflict for what is not
    in force, ends by then anyway or has such a proposal; Invalid for a moment that has passed, and
    for the organisation's list.
    """
    _require_bookkeeper(actor)
    now = now or timezone.now()
    card_id = card.pk if card else rate.card_id if rate else None
    check_span(None, valid_until)
    locked = lock_card(card_id)
    ending = RateEnding(rate=rate, card=locked if card else None, ends_at=valid_until)
    open_one = RateEnding.objects.filter(
        rate=rate, card=ending.card, decision=RateDecision.PROPOSED
    ).first()
    if open_one is not None:
        raise Conflict(
            f"{_name(open_one.proposed_by)} proposed this end already. Decide on that, or decline "
            "it first.",
            code="proposed_already",
        )
    until = check_moment(valid_until or now, now)
    ending.outcome = _outcome(ending, _ended(ending, until), until)
    ending.proposed_by = actor
    ending.save()
    _recorded(actor, "rate.propose_end", ending)
    if not people_who_can("keep_books", None).exclude(pk=actor.pk).exists():
        return _carried_out(actor, ending, now)
    return ending


@transaction.atomic
def approve_end(*, actor: User, ending: RateEnding, now: datetime | None = None) -> RateEnding:
    """Let a proposed end hold. Raises Forbidden for the one who proposed it; Conflict with the
    winner's name if somebody decided on it meanwhile."""
    ending = _open_ending(actor, ending)
    if ending.proposed_by_id == actor.pk:
        raise Forbidden("You proposed this end; another person has to approve it.")
    return _carried_out(actor, ending, now or timezone.now())


@transaction.atomic
def decline_end(*, actor: User, ending: RateEnding, now: datetime | None = None) -> RateEnding:
    """Turn a proposed end down; whoever proposed it may take it back so."""
    ending = _open_ending(actor, ending)
    return _decided(actor, ending, RateDecision.DECLINED, now or timezone.now())


def _open_ending(actor: User, ending: RateEnding) -> RateEnding:
    _require_bookkeeper(actor)
    lock_card(ending.card_id or (ending.rate.card_id if ending.rate else None))
    locked = RateEnding.objects.select_for_update().get(pk=ending.pk)
    if locked.decision != RateDecision.PROPOSED:
        raise decided_already("end", locked)
    return locked


def _carried_out(actor: User, ending: RateEnding, now: datetime) -> RateEnding:
    """End what it names, at its moment or now if that has passed while it waited."""
    until = max(ending.ends_at or now, now)
    ended = _ended(ending, until)
    end_rates(actor, ended, until)
    card = ending.card
    if card is not None:
        _end_card(actor, card, until, now)
    ending.ends_at, ending.outcome = until, _outcome(ending, ended, until)
    return _decided(actor, ending, RateDecision.APPROVED, now)


def _ended(ending: RateEnding, until: datetime) -> list[Rate]:
    """The prices that it ends at a moment. Raises Conflict, Invalid."""
    if ending.rate is not None:
        return to_end(ending.rate, until)
    card = ending.card
    assert card is not None
    if card.team_id is None:
        raise Invalid("The list has no end. End its prices one by one.", field="card")
    if card.decision != RateDecision.APPROVED:
        raise Conflict(f"This card is {card.decision}, so there is nothing to end.")
    if card.valid_until is not None and card.valid_until <= until:
        raise Conflict(f"This card ends on {moment_words(card.valid_until)} already.")
    if card.valid_from is not None and until <= card.valid_from:
        raise Invalid("It must end after it begins.", field="valid_until")
    still = Q(valid_until=None) | Q(valid_until__gt=until)
    held = card.rates.filter(still, decision=RateDecision.APPROVED, valid_from__lt=until)
    return list(held.order_by("pk"))


def _end_card(actor: User, card: RateCard, until: datetime, now: datetime) -> None:
    """The card's own end; what would have begun later, or waits, never holds."""
    later = card.rates.filter(
        Q(decision=RateDecision.PROPOSED) | Q(decision=RateDecision.APPROVED, valid_from__gte=until)
    )
    for rate in later:
        before = pictured(rate, "decision")
        rate.decision, rate.decided_by, rate.decided_at = RateDecision.DECLINED, actor, now
        rate.save(update_fields=["decision", "decided_by", "decided_at"])
        after = pictured(rate, "decision")
        record(actor, "rate.decline", rate, before=before, after=after, reason="its card ends")
    before = pictured(card, "valid_until")
    card.valid_until = until
    card.save(update_fields=["valid_until"])
    after = pictured(card, "valid_until")
    record(actor, "rate.end_card", card, before=before, after=after)


def _outcome(ending: RateEnding, ended: list[Rate], until: datetime) -> str:
    if ending.card is not None:
        return paid_after(ending.card, ended, until)
    rate = ending.rate
    assert rate is not None
    return paid_after(rate.card, ended, until)


def _decided(actor: User, ending: RateEnding, decision: RateDecision, now: datetime) -> RateEnding:
    ending.decision, ending.decided_by, ending.decided_at = decision, actor, now
    ending.save()
    word = "approve" if decision == RateDecision.APPROVED else "decline"
    return _recorded(actor, f"rate.{word}_end", ending)


def _require_bookkeeper(actor: User) -> None:
    if not can(actor, "keep_books", None):
        raise Forbidden("Only those who keep the books may do this. Ask an administrator.")


def _name(person: User | None) -> str:
    return (person.get_full_name() or person.get_username()) if person else "Somebody"


def _recorded(actor: User, action: str, ending: RateEnding) -> RateEnding:
    after: dict[str, Any] = pictured(ending, "rate_id", "card_id", "ends_at", "decision", "outcome")
    record(actor, action, ending, after=after)
    return ending
