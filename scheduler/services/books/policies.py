"""Terms of pools: who pays for time nobody used, month by month; changed by two people."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import people_who_can
from accounts.services.audit import record
from scheduler.ledger.periods import Month, PeriodState
from scheduler.ledger.shares import IdlePolicy
from scheduler.models import Period, Pool, PoolTerms, Recovery, TermsDecision
from scheduler.models.money.terms import Unreachable
from scheduler.selectors.books.terms import FIGURES, Terms, terms_of
from scheduler.services.books.posting import require_bookkeeper
from scheduler.services.errors import Conflict, Forbidden, Invalid

OFFERED = tuple(IdlePolicy)
MOST_REFUND_S = 86_400
# Farther ahead nobody plans: it is a slip of the pen, and what it books comes up in no close.
MOST_YEARS_AHEAD = 5
_FIRST = Month(1970, 1)


@transaction.atomic
def propose_terms(
    *,
    actor: User,
    pool: Pool,
    from_month: str = "",
    reason: str = "",
    now: datetime | None = None,
    **changes: Any,
) -> PoolTerms:
    """Other terms from a month on that is not closed; what is not named stays as it is.

    They count once a second person agrees, or at once where nobody else keeps the books. Without
    `from_month`: from the first month that is not closed. Raises Invalid.
    """
    require_bookkeeper(actor)
    now = _one_at_a_time(pool.pk, now)
    month = _month(from_month, now)
    known = terms_of(month).get(pool.pk, Terms())
    figures = {name: changes.get(name, getattr(known, name)) for name in FIGURES}
    if unknown := sorted(set(changes) - set(FIGURES)):
        raise KeyError(unknown[0])
    _check(figures)
    row = PoolTerms(pool=pool, from_month=str(month), reason=reason.strip()[:255], **figures)
    row.proposed_by, row.proposed_at = actor, now
    if not people_who_can("keep_books", None).exclude(pk=actor.pk).exists():
        row.decision, row.decided_by, row.decided_at = TermsDecision.APPROVED, actor, now
    row.save()
    before = {name: getattr(known, name) for name in FIGURES}
    after = {**figures, "from_month": str(month)}
    record(actor, "share.propose", row, before=before, after=after, reason=row.reason, now=now)
    return row


def approve_terms(*, actor: User, terms: PoolTerms, now: datetime | None = None) -> PoolTerms:
    """Let proposed terms hold. Raises Forbidden for who proposed them, Conflict if too late.

    It is too late, too, where other terms of the pool were approved since: what nobody named in
    these would go back to what held when they were proposed.
    """
    return _decide(actor, terms, TermsDecision.APPROVED, now)


def decline_terms(*, actor: User, terms: PoolTerms, now: datetime | None = None) -> PoolTerms:
    """Turn proposed terms down; whoever proposed them may take them back so."""
    return _decide(actor, terms, TermsDecision.DECLINED, now)


@transaction.atomic
def _decide(
    actor: User, terms: PoolTerms, decision: TermsDecision, now: datetime | None
) -> PoolTerms:
    require_bookkeeper(actor)
    now = _one_at_a_time(terms.pool_id, now)
    row = PoolTerms.objects.get(pk=terms.pk)
    if row.decision != TermsDecision.PROPOSED:
        raise Conflict(f"These terms were {row.decision} already.")
    if decision is TermsDecision.APPROVED:
        if row.proposed_by_id == actor.pk:
            raise Forbidden("You proposed these terms; another person has to approve them.")
        if Month.parse(row.from_month) < first_open():
            raise Conflict(f"{row.from_month} was closed meanwhile; propose them for a later one.")
        _refuse_stale(row)
    row.decision, row.decided_by, row.decided_at = decision, actor, now
    row.save(update_fields=["decision", "decided_by", "decided_at"])
    verb = "approve" if decision is TermsDecision.APPROVED else "decline"
    record(actor, f"share.{verb}", row, after={"decision": str(decision)}, now=now)
    return row


def _one_at_a_time(pool_id: int, now: datetime | None) -> datetime:
    """Of all who propose or decide on terms of this pool the later one sees what the earlier did,
    whose moment is before the one returned."""
    Pool.objects.select_for_update(no_key=True).get(pk=pool_id)
    return now or timezone.now()


def _refuse_stale(row: PoolTerms) -> None:
    month = Month.parse(row.from_month)
    then, now = terms_of(month, as_of=row.proposed_at), terms_of(month)
    if then.get(row.pool_id) != now.get(row.pool_id):
        raise Conflict(
            f"Other terms of {row.pool} were approved after these were proposed, and these would "
            "take them back. Decline these, and propose anew what is to change."
        )


def first_open() -> Month:
    """The month after the last closed one; the first there is where none was closed."""
    closed = Period.objects.filter(state__in=(PeriodState.CLOSED, PeriodState.REOPENED))
    last = closed.order_by("-name").values_list("name", flat=True).first()
    return Month.parse(last).following if last else _FIRST


def month_at_hand(text: str, *, field: str, now: datetime) -> Month:
    """A month as it is written, not too far ahead. Raises Invalid of this field."""
    try:
        month = Month.parse(text)
    except ValueError as error:
        raise Invalid(str(error), field=field) from None
    last = Month(now.year + MOST_YEARS_AHEAD, now.month)
    if month > last:
        raise Invalid(
            f"{month} is more than {MOST_YEARS_AHEAD} years ahead; check the year, or give a month "
            f"up to {last}.",
            field=field,
        )
    return month


def _month(text: str, now: datetime) -> Month:
    earliest = first_open()
    if not text:
        return earliest
    month = month_at_hand(text, field="from_month", now=now)
    if month < earliest:
        raise Invalid(
            f"{month} is closed; terms hold from {earliest} on at the earliest.", field="from_month"
        )
    return month


def _check(figures: dict[str, Any]) -> None:
    for field in ("idle", "platform"):
        if figures[field] not in OFFERED:
            raise Invalid(f"Use one of {', '.join(OFFERED)}.", field=field)
    percent, refund_s = figures["guarantee_percent"], figures["refund_s"]
    if not isinstance(percent, int) or not 0 <= percent <= 100:
        raise Invalid("Give a whole number from 0 to 100.", field="guarantee_percent")
    if not isinstance(refund_s, int) or not 0 <= refund_s <= MOST_REFUND_S:
        raise Invalid(f"Give whole seconds from 0 to {MOST_REFUND_S}.", field="refund_s")
    if figures["recovery"] not in Recovery.values:
        raise Invalid(f"Use one of {', '.join(Recovery.values)}.", field="recovery")
    if figures["unreachable"] not in Unreachable.values:
        raise Invalid(f"Use one of {', '.join(Unreachable.values)}.", field="unreachable")


def set_share_policy(*, actor: User, pool: Pool, idle: str = "", platform: str = "") -> PoolTerms:
    """Change who pays for idle, or for drained and broken time; empty: as it is."""
    given: dict[str, Any] = {"idle": idle, "platform": platform}
    return propose_terms(actor=actor, pool=pool, **{k: v for k, v in given.items() if v})
