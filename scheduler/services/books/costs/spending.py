"""What pools cost: assets and other costs, proposed by one person and approved by another."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal, Inexact
from typing import TypeVar

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import people_who_can
from accounts.services.audit import record
from scheduler.conf import load_conf
from scheduler.ledger.currencies import exponent_of, from_minor
from scheduler.ledger.entries import EXPENSE, Entry, EntryKind, cost_account, posting
from scheduler.ledger.exact import EXACT, half_even, plain
from scheduler.ledger.periods import LAST_YEAR
from scheduler.models import Asset, CostKind, Pool, PoolCost, TermsDecision
from scheduler.services.books.policies import first_open, month_at_hand
from scheduler.services.books.posting import post_entries, require_bookkeeper
from scheduler.services.errors import Conflict, Forbidden, Invalid

MOST = Decimal(10) ** 12
MOST_MONTHS = 240
_FIRST_DAY, _LAST_DAY = date(1970, 1, 1), date(LAST_YEAR - MOST_MONTHS // 12, 12, 31)
Row = TypeVar("Row", Asset, PoolCost)
# What makes a row the same as one before it. What counts at once no second person sees: for so long
# the same is taken for the same call sent again.
_SAME = {
    Asset: ("pool_id", "name", "paid", "paid_currency", "fx_rate", "residual", "since", "months"),
    PoolCost: ("pool_id", "month", "kind", "amount", "note"),
}
_AGAIN = timedelta(minutes=10)


@transaction.atomic
def propose_asset(
    *,
    actor: User,
    pool: Pool,
    name: str,
    paid: Decimal,
    since: date,
    months: int,
    residual: Decimal = Decimal(0),
    paid_currency: str = "",
    fx_rate: Decimal | None = None,
    fx_source: str = "",
    now: datetime | None = None,
) -> Asset:
    """Something bought for a pool, in use from `since` on; `residual` in the books' currency.

    Paid in another currency it needs the rate of that day (books' currency for one unit) and where
    the rate is from; it is converted once, to the smallest coin, half to even. Raises Invalid,
    Conflict for the same once more.
    """
    require_bookkeeper(actor)
    currency = load_conf().currency
    paid_currency = paid_currency or currency
    _check_asset(name, paid, residual, since, months, paid_currency)
    fx_rate = _rate(currency, paid_currency, fx_rate, fx_source)
    units = half_even(EXACT.multiply(paid, fx_rate), exponent_of(currency))
    cost = from_minor(units, currency)
    if residual > cost:
        raise Invalid(f"It is worth at most what it has cost, {cost}.", field="residual")
    asset = Asset(
        pool=pool,
        name=name.strip(),
        cost=cost,
        residual=residual,
        currency=currency,
        paid=paid,
        paid_currency=paid_currency,
        fx_rate=fx_rate,
        fx_source=fx_source.strip()[:128],
        since=since,
        months=months,
    )
    after = {"cost": cost, "since": since, "months": months}
    return _proposed(actor, asset, "asset.propose", after, now or timezone.now())


def _check_asset(
    name: str, paid: Decimal, residual: Decimal, since: date, months: int, paid_currency: str
) -> None:
    if not name.strip() or len(name) > 128 or not name.isprintable():
        raise Invalid("Give a name in one line of at most 128 characters.", field="name")
    if not paid.is_finite() or not 0 < paid <= MOST:
        raise Invalid(f"Give an amount above 0, up to {MOST}.", field="paid")
    _exact(paid, "paid")
    if not residual.is_finite() or residual < 0:
        raise Invalid("Give an amount from 0 up.", field="residual")
    _exact(residual, "residual")
    if not 1 <= months <= MOST_MONTHS:
        raise Invalid(f"Give whole months from 1 to {MOST_MONTHS}.", field="months")
    if not _FIRST_DAY <= since <= _LAST_DAY:
        raise Invalid(f"Give a day from {_FIRST_DAY} to {_LAST_DAY}.", field="since")
    try:
        exponent_of(paid_currency)
    except ValueError:
        raise Invalid(
            "Use a three-letter currency code such as EUR.", field="paid_currency"
        ) from None


def _rate(currency: str, paid_currency: str, fx_rate: Decimal | None, fx_source: str) -> Decimal:
    """What one unit of the foreign currency was in the books' own; 1 for that one itself."""
    if paid_currency == currency:
        if fx_source.strip() or fx_rate not in (None, Decimal(1)):
            raise Invalid("The books are in this currency; leave the rate out.", field="fx_rate")
        return Decimal(1)
    if fx_rate is None or not fx_rate.is_finite() or not 0 < fx_rate <= MOST:
        raise Invalid(f"Give what one {paid_currency} was in {currency}.", field="fx_rate")
    if not fx_source.strip():
        raise Invalid("Say where the rate is from.", field="fx_source")
    _exact(fx_rate, "fx_rate")
    return fx_rate


def _exact(amount: Decimal, field: str) -> None:
    """Fifteen decimals at most; fewer where products of two are taken."""
    exponent = amount.normalize(EXACT).as_tuple().exponent
    if isinstance(exponent, int) and exponent < -6:
        raise Invalid("Use at most 6 decimals.", field=field)


@transaction.atomic
def propose_cost(
    *,
    actor: User,
    pool: Pool,
    month: str,
    kind: str,
    amount: Decimal,
    note: str,
    now: datetime | None = None,
) -> PoolCost:
    """Energy, staff or another cost of a pool in a month that is open and not years ahead. Raises
    Invalid, Conflict for the same once more."""
    require_bookkeeper(actor)
    if kind not in CostKind.values:
        raise Invalid(f"Use one of {', '.join(CostKind.values)}.", field="kind")
    if not amount.is_finite() or not 0 < abs(amount) <= MOST:
        raise Invalid(f"Give an amount up to {MOST}, not 0.", field="amount")
    try:
        plain(amount)
    except Inexact:
        raise Invalid("Use at most 15 decimals.", field="amount") from None
    if not note.strip():
        raise Invalid("Say what it is for.", field="note")
    now = now or timezone.now()
    at = month_at_hand(month, field="month", now=now)
    if at < first_open():
        raise Invalid(f"{at} is closed; book it in an open month.", field="month")
    cost = PoolCost(
        pool=pool,
        month=str(at),
        kind=kind,
        amount=amount,
        currency=load_conf().currency,
        note=note.strip()[:255],
    )
    after = {"amount": amount, "month": str(at), "kind": kind}
    return _proposed(actor, cost, "share.propose_cost", after, now)


def _proposed(actor: User, row: Row, action: str, after: dict[str, object], now: datetime) -> Row:
    """Store it; where nobody else keeps the books it holds at once."""
    _refuse_again(actor, row, now)
    row.proposed_by, row.proposed_at = actor, now
    row.save()
    shown = {name: str(value) for name, value in after.items()}
    record(actor, action, row, after=shown, now=now)
    if not people_who_can("keep_books", None).exclude(pk=actor.pk).exists():
        return _decide(actor, row, TermsDecision.APPROVED, now, is_alone=True)
    return row


def _refuse_again(actor: User, row: Row, now: datetime) -> None:
    """Raises Conflict for what this person has proposed already: its reply may have been lost."""
    kind = type(row)
    same = {name: getattr(row, name) for name in _SAME[kind]}
    before = kind._default_manager.filter(**same, proposed_by=actor)
    field = "name" if kind is Asset else "note"
    if before.filter(decision=TermsDecision.PROPOSED).exists():
        raise Conflict(
            "You proposed just this already, and it waits for a second person. If this is another "
            f"one, give it another {field}."
        )
    lately = before.filter(decision=TermsDecision.APPROVED, decided_by=actor)
    if lately.filter(proposed_at__gt=now - _AGAIN).exists():
        raise Conflict(
            "You booked just this a moment ago, and it counts. If this is another one, give it "
            f"another {field}."
        )


def approve_spending(*, actor: User, row: Row, now: datetime | None = None) -> Row:
    """Let an asset or a cost count. Raises Forbidden for who proposed it, Conflict if decided."""
    return _decide(actor, row, TermsDecision.APPROVED, now or timezone.now())


def decline_spending(*, actor: User, row: Row, now: datetime | None = None) -> Row:
    """Turn it down; whoever proposed it may take it back so."""
    return _decide(actor, row, TermsDecision.DECLINED, now or timezone.now())


@transaction.atomic
def _decide(
    actor: User, row: Row, decision: TermsDecision, now: datetime, *, is_alone: bool = False
) -> Row:
    require_bookkeeper(actor)
    kind = type(row)
    locked: Row = kind._default_manager.select_for_update(of=("self",)).get(pk=row.pk)
    if locked.decision != TermsDecision.PROPOSED:
        raise Conflict(f"This was {locked.decision} already.")
    if decision is TermsDecision.APPROVED and not is_alone and locked.proposed_by_id == actor.pk:
        raise Forbidden("You proposed this; another person has to approve it.")
    locked.decision, locked.decided_by, locked.decided_at = decision, actor, now
    if decision is TermsDecision.APPROVED and isinstance(locked, PoolCost):
        _post(locked, actor)
    locked.save()
    verb = "approve" if decision is TermsDecision.APPROVED else "decline"
    noun = "asset" if isinstance(locked, Asset) else "share"
    record(actor, f"{noun}.{verb}", locked, after={"decision": str(decision)}, now=now)
    return locked


def _post(cost: PoolCost, actor: User) -> None:
    draft = Entry(
        batch=f"cost {cost.pk}",
        kind=EntryKind.COST,
        period=cost.month,
        service_period=cost.month,
        debit=cost_account(str(cost.pool_id)),
        credit=EXPENSE,
        amount=cost.amount,
        currency=cost.currency,
        reason=f"{cost.kind}: {cost.note}"[:255],
        created_by=actor.username,
    )
    (cost.entry,) = post_entries([posting(draft)])
