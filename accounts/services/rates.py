"""Prices: proposed by one person, approved by another; and who keeps the books."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import OrganisationRole, Rate, RateCard, RateDecision, RateKind, User
from accounts.permissions import can, people_who_can
from accounts.services.audit import pictured, record
from accounts.services.rate_ends import (
    check_currency,
    check_span,
    decided_already,
    keep_within_card,
    lock_card,
    make_room,
    open_card,
    refuse_overlap,
)
from accounts.services.roles import give_role, take_role

_MAX_PRICE = Decimal(100_000)
_DECIMALS = 6
_SMALLEST = Decimal(1).scaleb(-_DECIMALS)
_MOST_PRIORITY = 100
_MAX_MODEL = 96
# Of "from now on": a form takes its time.
_PAST = timedelta(minutes=5)


def _require_bookkeeper(actor: User) -> None:
    if not can(actor, "keep_books", None):
        raise Forbidden("Only those who keep the books may do this. Ask an administrator.")


def appoint_bookkeeper(*, actor: User, user: User, keeps: bool = True) -> None:
    """Let `user` keep the books, or no longer: the organisation's role of finance."""
    if keeps:
        give_role(actor=actor, user=user, role=OrganisationRole.FINANCE)
    else:
        take_role(actor=actor, user=user, role=OrganisationRole.FINANCE)


@transaction.atomic
def set_rate(
    *,
    actor: User,
    device_model: str,
    price_per_gpu_hour: Decimal,
    kind: str = RateKind.GENERAL,
    currency: str = "EUR",
    valid_from: datetime | None = None,
    restated_for: str = "",
    card: RateCard | None = None,
    valid_until: datetime | None = None,
    priority: int = 0,
) -> Rate:
    """A price in `[valid_from, valid_until)` on a card, the list unless one is named; what was
    charged before keeps its own price.

    Holds at once only where nobody else keeps the books; else it is a proposal for them.
    `restated_for`: why it is for time that has passed, which nobody says by leaving it empty.
    """
    if not can(actor, "administer", None):
        raise Forbidden("Only administrators set prices.")
    now = timezone.now()
    rate = _checked(
        device_model, kind, price_per_gpu_hour, currency, valid_from or now, valid_until, priority
    )
    rate.card = open_card(card)
    _refuse_past(rate.valid_from, now, restate=bool(restated_for))
    rate.is_restatement, rate.reason = bool(restated_for), restated_for[:255]
    rate.proposed_by = actor
    if people_who_can("keep_books", None).exclude(pk=actor.pk).exists():
        rate.decision = RateDecision.PROPOSED
    else:
        rate.decided_by, rate.decided_at = actor, now
        make_room(actor, rate)
    return _recorded(actor, "rate.set", _stored(rate))


@transaction.atomic
def price_reserved_alike(*, actor: User, rate: Rate) -> Rate | None:
    """Let time reserved and not used cost what `rate`, a general price, does.

    A month with such time cannot be closed without that price, so a first run sets both. Nothing,
    and None, where one is there already, of this model or of any.
    """
    if (
        Rate.objects.filter(kind=RateKind.RESERVED_IDLE, card__team=None)
        .exclude(decision=RateDecision.DECLINED)
        .filter(device_model__in=("", rate.device_model))
    ):
        return None
    return set_rate(
        actor=actor,
        device_model=rate.device_model,
        kind=RateKind.RESERVED_IDLE,
        price_per_gpu_hour=rate.price_per_gpu_hour,
        currency=rate.currency,
        valid_from=rate.valid_from,
        restated_for=rate.reason,
    )


@transaction.atomic
def propose_rate(
    *,
    actor: User,
    device_model: str,
    price_per_gpu_hour: Decimal,
    kind: str = RateKind.GENERAL,
    currency: str = "EUR",
    valid_from: datetime | None = None,
    restate: bool = False,
    reason: str = "",
    card: RateCard | None = None,
    valid_until: datetime | None = None,
    priority: int = 0,
) -> Rate:
    """A price that waits for a second person.

    On a card, the list unless one is named; on one that is a draft it is a draft as well, and is
    proposed with it. `restate`: it is for time that has passed; months that are closed are
    corrected by it, so a reason is needed.
    """
    _require_bookkeeper(actor)
    now = timezone.now()
    rate = _checked(
        device_model, kind, price_per_gpu_hour, currency, valid_from or now, valid_until, priority
    )
    rate.card = open_card(card)
    _refuse_past(rate.valid_from, now, restate=restate)
    if restate and not reason.strip():
        raise Invalid("Say why the past is priced anew.", field="reason")
    is_draft = rate.card.decision == RateDecision.DRAFT
    if restate and is_draft:
        raise Invalid(
            "A card that is drafted prices nothing yet. Propose this on its own once the card is "
            "approved: what it moves is counted then.",
            field="restate",
        )
    rate.decision = RateDecision.DRAFT if is_draft else RateDecision.PROPOSED
    rate.proposed_by = actor
    if restate:
        # What it moves is counted before it is approved: to its end.
        keep_within_card(rate)
    else:
        refuse_overlap(rate)
    rate.is_restatement, rate.reason = restate, reason.strip()[:255]
    return _recorded(actor, "rate.propose", _stored(rate))


@transaction.atomic
def approve_rate(*, actor: User, rate: Rate, now: datetime | None = None) -> Rate:
    """Let a proposed price hold. Raises Forbidden for the one who proposed it."""
    rate = _open_proposal(actor, rate)
    if rate.proposed_by_id == actor.pk:
        raise Forbidden("You proposed this price; another person has to approve it.")
    return approved(actor, rate, now or timezone.now())


def approved(actor: User, rate: Rate, now: datetime) -> Rate:
    """Let a rate hold, as its card's approver may too; in the caller's transaction."""
    if rate.valid_from <= now and not rate.is_restatement:
        # It was meant for a moment that has passed while it waited: it holds from now on.
        rate.valid_from = now
    if rate.valid_until is not None and rate.valid_until <= rate.valid_from:
        raise Conflict("Its time passed while it waited. Decline it and propose it anew.")
    make_room(actor, rate)
    rate.decision, rate.decided_by, rate.decided_at = RateDecision.APPROVED, actor, now
    return _recorded(actor, "rate.approve", _stored(rate))


@transaction.atomic
def decline_rate(*, actor: User, rate: Rate, now: datetime | None = None) -> Rate:
    """Turn a proposed price down; whoever proposed it may take it back so."""
    rate = _open_proposal(actor, rate)
    rate.decision, rate.decided_by = RateDecision.DECLINED, actor
    rate.decided_at = now or timezone.now()
    rate.save(update_fields=["decision", "decided_by", "decided_at"])
    return _recorded(actor, "rate.decline", rate)


def _open_proposal(actor: User, rate: Rate) -> Rate:
    _require_bookkeeper(actor)
    # The card first, as whoever decides on the card does, then the price itself.
    card = lock_card(rate.card_id)
    locked = Rate.objects.select_for_update().get(pk=rate.pk)
    if locked.decision == RateDecision.DRAFT:
        raise Conflict("This price is a draft: its card has to be proposed first.")
    if locked.decision != RateDecision.PROPOSED:
        raise decided_already("price", locked)
    if card is not None and card.decision == RateDecision.PROPOSED:
        raise Conflict("This price waits with its card: decide on the card.")
    return locked


def _refuse_past(valid_from: datetime, now: datetime, *, restate: bool) -> None:
    if valid_from < now - _PAST and not restate:
        raise Invalid(
            "This moment has passed. Choose one to come, or say that you mean to restate the past.",
            field="valid_from",
        )


def _checked(
    device_model: str,
    kind: str,
    price: Decimal,
    currency: str,
    valid_from: datetime,
    valid_until: datetime | None,
    priority: int,
) -> Rate:
    """An unsaved approved rate; raises Invalid that names the field."""
    if not price.is_finite() or not 0 <= price <= _MAX_PRICE:
        raise Invalid(f"Give a price from 0 to {_MAX_PRICE}.", field="price_per_gpu_hour")
    if price != price.quantize(_SMALLEST):
        raise Invalid(f"Use at most {_DECIMALS} decimals.", field="price_per_gpu_hour")
    check_currency(currency)
    check_span(valid_from, valid_until)
    if abs(priority) > _MOST_PRIORITY:
        raise Invalid(
            f"Give a whole number from -{_MOST_PRIORITY} to {_MOST_PRIORITY}.", field="priority"
        )
    model = device_model.strip()
    if len(model) > _MAX_MODEL or not model.isprintable():
        raise Invalid(
            f"Write the model in one line of at most {_MAX_MODEL} characters.",
            field="device_model",
        )
    if kind not in RateKind.values:
        known = ", ".join(value for value in RateKind.values if value)
        raise Invalid(f"Leave the kind empty or use one of {known}.", field="kind")
    return Rate(
        device_model=model,
        kind=kind,
        price_per_gpu_hour=price,
        currency=currency,
        valid_from=valid_from,
        valid_until=valid_until,
        priority=priority,
    )


def _recorded(actor: User, action: str, rate: Rate) -> Rate:
    state = pictured(
        rate,
        "device_model",
        "kind",
        "price_per_gpu_hour",
        "currency",
        "valid_from",
        "valid_until",
        "priority",
        "card_id",
        "decision",
        "is_restatement",
    )
    record(actor, action, rate, after=state, reason=rate.reason)
    return rate


def _stored(rate: Rate) -> Rate:
    try:
        with transaction.atomic():
            rate.save()
            return rate
    except IntegrityError:
        raise Invalid("There is a price from that moment on already.", field="valid_from") from None
