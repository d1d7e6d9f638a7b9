"""When rates of a card end: the next one ends the last, and whoever keeps the books may end one.

Whatever changes which rate holds locks the card first, so that no two do at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.errors import Conflict, Invalid, moment_words
from accounts.models import Rate, RateCard, RateDecision, RateEnding, User
from accounts.selectors.rates import DECIDED
from accounts.services.audit import pictured, record

# Of "from now on": a form takes its time.
_PAST = timedelta(minutes=5)
LIST_NAME = "List prices"


def check_currency(currency: str) -> None:
    """Raises Invalid for an unknown currency and for another one than the books'."""
    if not re.fullmatch(r"[A-Z]{3}", currency):
        raise Invalid("Use a three-letter currency code such as EUR.", field="currency")
    kept_in = settings.TRAINYARD["currency"]
    if currency != kept_in:
        raise Invalid(
            f"The books are kept in {kept_in}: convert the price and give it in {kept_in}.",
            field="currency",
        )


def check_span(valid_from: datetime | None, valid_until: datetime | None) -> None:
    """Raises Invalid for moments without a zone, and for what ends before or as it begins."""
    for field, moment in (("valid_from", valid_from), ("valid_until", valid_until)):
        if moment is not None and timezone.is_naive(moment):
            raise Invalid("Give a time with its zone, such as 2026-12-01T00:00:00Z.", field=field)
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise Invalid("It must end after it begins.", field="valid_until")


def open_card(card: RateCard | None) -> RateCard:
    """The card, or the organisation's list (made when it is first needed), locked.

    Raises Conflict for one that waits for its decision or was declined.
    """
    if card is None:
        card, _ = RateCard.objects.get_or_create(
            team=None,
            currency=settings.TRAINYARD["currency"],
            defaults={"name": LIST_NAME, "decision": RateDecision.APPROVED},
        )
    locked = lock_card(card.pk)
    if locked is None or locked.decision in (RateDecision.PROPOSED, RateDecision.DECLINED):
        raise Conflict("This card takes no rates: it waits for a decision, or was declined.")
    return locked


def lock_card(pk: int | None) -> RateCard | None:
    """Until the end of the transaction nobody else changes what holds on the card."""
    return RateCard.objects.select_for_update(of=("self",)).filter(pk=pk or 0).first()


def _beside(rate: Rate) -> QuerySet[Rate]:
    """Approved rates of the same card, model, kind and priority; of a draft card its drafts."""
    decision = RateDecision.APPROVED
    if rate.card is not None and rate.card.decision == RateDecision.DRAFT:
        decision = RateDecision.DRAFT
    return Rate.objects.filter(
        card=rate.card,
        device_model=rate.device_model,
        kind=rate.kind,
        priority=rate.priority,
        decision=decision,
    ).exclude(pk=rate.pk)


def _goes_on_at(moment: datetime) -> Q:
    return Q(valid_from__lt=moment) & (Q(valid_until=None) | Q(valid_until__gt=moment))


def refuse_overlap(rate: Rate) -> None:
    """Raises Invalid where a rate with an end meets another of its priority, and for a rate outside
    of its card's life. One without an end follows the one before and makes way for the next."""
    _refuse_outside(rate)
    if rate.valid_until is None:
        return
    meets = Q(valid_from__gte=rate.valid_from, valid_from__lt=rate.valid_until)
    other = _beside(rate).filter(meets | _goes_on_at(rate.valid_from)).first()
    if other is not None:
        raise Invalid(
            f"Another price of the same GPUs and priority ({other.price_per_gpu_hour.normalize():f}"
            f" from {moment_words(other.valid_from)}) holds in this time. Give this one a "
            "higher priority, or end the other one first.",
            field="valid_until",
        )


def _refuse_outside(rate: Rate) -> None:
    card = rate.card
    if card is not None and (
        (card.valid_from is not None and rate.valid_from < card.valid_from)
        or (card.valid_until is not None and rate.valid_from >= card.valid_until)
        or (card.valid_until and rate.valid_until and rate.valid_until > card.valid_until)
    ):
        raise Invalid("Its card does not live that long; choose a time within.", field="valid_from")


def keep_within_card(rate: Rate) -> None:
    """Let a rate without an end end with its card; raises Invalid for one that leaves it."""
    _refuse_outside(rate)
    if rate.valid_until is None and rate.card is not None:
        rate.valid_until = rate.card.valid_until


def make_room(actor: User, rate: Rate) -> None:
    """End the rate before where this one begins, and this one where the next begins.

    A restatement ends nothing: it goes before what holds already, for as long as its card lives.
    """
    if rate.is_restatement:
        keep_within_card(rate)
        return
    refuse_overlap(rate)
    if rate.valid_until is not None:
        return
    for before in _beside(rate).filter(_goes_on_at(rate.valid_from)):
        _end(actor, before, rate.valid_from)
    following = _beside(rate).filter(valid_from__gt=rate.valid_from).order_by("valid_from").first()
    if following is not None:
        rate.valid_until = following.valid_from
    elif rate.card is not None:
        rate.valid_until = rate.card.valid_until


def check_moment(until: datetime, now: datetime) -> datetime:
    """The moment something ends, now at the earliest. Raises Invalid for one that has passed."""
    if until < now - _PAST:
        raise Invalid(
            "This moment has passed. End it now or later; for what has passed, propose a price "
            "that prices the past anew.",
            field="valid_until",
        )
    return max(until, now)


def to_end(rate: Rate, until: datetime) -> list[Rate]:
    """The rate, and the earlier ones that it went before and that do not come back.

    Raises Conflict for one that is not in force or ends by then anyway, Invalid for a moment before
    it begins. Call under the card's lock.
    """
    rate = Rate.objects.select_related("card__team").get(pk=rate.pk)
    if rate.decision != RateDecision.APPROVED:
        raise Conflict(f"This price is {rate.decision}, so there is nothing to end.")
    if until <= rate.valid_from:
        raise Invalid("It must end after it begins.", field="valid_until")
    if rate.valid_until is not None and rate.valid_until <= until:
        raise Conflict(f"This price ends on {moment_words(rate.valid_until)} already.")
    decided = rate.decided_at or rate.created_at
    sooner = Q(decided__lt=decided) | Q(decided=decided, pk__lt=rate.pk)
    earlier = (
        _beside(rate)
        .alias(decided=DECIDED)
        .filter(Q(valid_from__lt=rate.valid_from) | Q(valid_from=rate.valid_from) & sooner)
    )
    return [rate, *earlier.filter(_goes_on_at(until))]


def end_rates(actor: User, rates: Iterable[Rate], until: datetime) -> None:
    """Let them hold until then: the only thing about a rate that may change once it has begun."""
    for one in rates:
        _end(actor, one, until)


def decided_already(what: str, row: Rate | RateCard | RateEnding) -> Conflict:
    """409 for whoever comes second, with the name of who was faster."""
    who = row.decided_by
    name = (who.get_full_name() or who.get_username()) if who else "Somebody"
    at = f" at {moment_words(row.decided_at)}" if row.decided_at else ""
    facts: dict[str, object] = {
        "decision": row.decision,
        "decided_by": who.get_username() if who else "",
    }
    return Conflict(
        f"{name} was faster: this {what} was {row.decision}{at}. Nothing of yours was stored.",
        code="decided_already",
        facts=facts,
    )


def _end(actor: User, rate: Rate, until: datetime) -> None:
    before = pictured(rate, "valid_until")
    rate.valid_until = until
    rate.save(update_fields=["valid_until"])
    record(actor, "rate.end", rate, before=before, after=pictured(rate, "valid_until"))
