"""Rate cards of teams: drafted with their rates, proposed whole, approved by a second person."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, moment_words
from accounts.models import Rate, RateCard, RateDecision, RateKind, Team, User
from accounts.permissions import can
from accounts.services.audit import pictured, record
from accounts.services.rate_ends import check_span, decided_already
from accounts.services.rates import approved, decline_rate

_LONGEST_NAME = 64


@transaction.atomic
def draft_card(
    *,
    actor: User,
    name: str,
    team: Team,
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
) -> RateCard:
    """A team's own card, without rates so far; it prices nothing before it is approved.

    It lives in `[valid_from, valid_until)`. Raises Forbidden, Invalid; Conflict for a team with a
    card that is not over or declined.
    """
    _require_bookkeeper(actor)
    clean = name.strip()
    if not clean or len(clean) > _LONGEST_NAME or not clean.isprintable():
        raise Invalid(f"Give a name of 1 to {_LONGEST_NAME} characters.", field="name")
    check_span(valid_from, valid_until)
    team = Team.objects.select_for_update(of=("self",)).get(pk=team.pk)
    others = RateCard.objects.filter(team=team).exclude(decision=RateDecision.DECLINED)
    for other in others:
        is_before = other.valid_until and valid_from and other.valid_until <= valid_from
        is_after = other.valid_from and valid_until and valid_until <= other.valid_from
        if not (is_before or is_after):
            raise Conflict(
                f"{team.slug} has the card {other.name} in this time already. Propose a rate on "
                "it, or give this one a time of its own."
            )
    card = RateCard.objects.create(
        name=clean,
        team=team,
        currency=settings.TRAINYARD["currency"],
        valid_from=valid_from,
        valid_until=valid_until,
        proposed_by=actor,
    )
    return _recorded(actor, "rate.draft_card", card)


@transaction.atomic
def propose_card(*, actor: User, card: RateCard) -> RateCard:
    """Let a draft with its rates wait for a second person. Raises Invalid where it has no rate, or
    a gap within its life, with the GPUs and the dates."""
    _require_bookkeeper(actor)
    card = _locked(card, RateDecision.DRAFT)
    _check_whole(card)
    card.decision, card.proposed_by = RateDecision.PROPOSED, actor
    card.save(update_fields=["decision", "proposed_by"])
    card.rates.filter(decision=RateDecision.DRAFT).update(decision=RateDecision.PROPOSED)
    return _recorded(actor, "rate.propose_card", card)


@transaction.atomic
def approve_card(*, actor: User, card: RateCard, now: datetime | None = None) -> RateCard:
    """Let a proposed card and its rates hold. Raises Forbidden for whoever proposed any of it."""
    _require_bookkeeper(actor)
    card, now = _locked(card, RateDecision.PROPOSED), now or timezone.now()
    # The latest first, so that each finds the one it makes way for.
    rates = list(card.rates.filter(decision=RateDecision.PROPOSED).order_by("-valid_from", "pk"))
    if actor.pk in {card.proposed_by_id, *(rate.proposed_by_id for rate in rates)}:
        raise Forbidden("You proposed this card or a rate on it; another person has to approve it.")
    card.decision, card.decided_by, card.decided_at = RateDecision.APPROVED, actor, now
    card.save(update_fields=["decision", "decided_by", "decided_at"])
    begun: set[tuple[str, str, int]] = set()
    for rate in rates:
        rate.card, key = card, (rate.device_model, rate.kind, rate.priority)
        is_over = rate.valid_until is not None and rate.valid_until <= now
        if is_over or (rate.valid_from <= now and key in begun):
            # Its time passed while the card waited.
            decline_rate(actor=actor, rate=rate, now=now)
            continue
        if rate.valid_from <= now:
            begun.add(key)
        approved(actor, rate, now)
    return _recorded(actor, "rate.approve_card", card)


@transaction.atomic
def decline_card(*, actor: User, card: RateCard, now: datetime | None = None) -> RateCard:
    """Turn a draft or proposed card and its rates down; who proposed it may take it back so."""
    _require_bookkeeper(actor)
    card, now = _locked(card, RateDecision.DRAFT, RateDecision.PROPOSED), now or timezone.now()
    card.decision, card.decided_by, card.decided_at = RateDecision.DECLINED, actor, now
    card.save(update_fields=["decision", "decided_by", "decided_at"])
    card.rates.update(decision=RateDecision.DECLINED, decided_by=actor, decided_at=now)
    return _recorded(actor, "rate.decline_card", card)


def gaps_of(card: RateCard) -> list[str]:
    """Within the card's life what a model and kind with a rate on it is not priced by, in words."""
    rates = card.rates.exclude(decision=RateDecision.DECLINED)
    by_sku: dict[tuple[str, str], list[Rate]] = {}
    for rate in rates.order_by("valid_from"):
        by_sku.setdefault((rate.device_model, rate.kind), []).append(rate)
    return [
        f"{model or 'any model'}, {RateKind(kind).label}: no price {gap}"
        for (model, kind), of_it in sorted(by_sku.items())
        for gap in _gaps(card, of_it)
    ]


def _gaps(card: RateCard, rates: list[Rate]) -> list[str]:
    found = []
    covered = card.valid_from or rates[0].valid_from
    for number, rate in enumerate(rates):
        if rate.valid_from > covered:
            found.append(f"from {moment_words(covered)} until {moment_words(rate.valid_from)}")
        until = rate.valid_until
        if until is None:
            # It goes on until the next of its priority.
            later = [one for one in rates[number + 1 :] if one.priority == rate.priority]
            if not later:
                return found
            until = later[0].valid_from
        covered = max(covered, until)
    if card.valid_until is None or covered < card.valid_until:
        last = f" until {moment_words(card.valid_until)}" if card.valid_until else " on"
        found.append(f"from {moment_words(covered)}{last}")
    return found


def _check_whole(card: RateCard) -> None:
    if not card.rates.filter(decision=RateDecision.DRAFT).exists():
        raise Invalid("Put a rate on the card first.", field="card")
    gaps = gaps_of(card)
    if gaps:
        raise Invalid(
            f"The card has gaps: {'; '.join(gaps[:5])}. Add rates for these times, or change the "
            "ends.",
            field="card",
        )


def _locked(card: RateCard, *decisions: RateDecision) -> RateCard:
    locked = RateCard.objects.select_for_update(of=("self",)).get(pk=card.pk)
    if locked.decision not in decisions:
        if locked.decided_by_id is not None:
            raise decided_already("card", locked)
        raise Conflict(f"This card is {locked.decision} already.")
    return locked


def _require_bookkeeper(actor: User) -> None:
    if not can(actor, "keep_books", None):
        raise Forbidden("Only those who keep the books may do this. Ask an administrator.")


def _recorded(actor: User, action: str, card: RateCard) -> RateCard:
    state = pictured(card, "name", "team_id", "valid_from", "valid_until", "decision")
    record(actor, action, card, after=state)
    return card
