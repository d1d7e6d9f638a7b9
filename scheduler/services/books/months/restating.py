"""What a price for time that has passed would move in closed months, before it is approved.

Counted by what posts corrections, with the price as if it held, and nothing posted: what is shown
is what a correction of these months then posts, down to facts that came late and wait for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from accounts.models import Rate, RateDecision, User
from accounts.services import approve_rate
from accounts.services.audit import record
from scheduler.conf import load_conf
from scheduler.ledger.closing import BookKey, Posting, entries_of
from scheduler.ledger.entries import RECOVERY
from scheduler.ledger.exact import EXACT, ZERO, plain
from scheduler.ledger.findings import blocking
from scheduler.ledger.periods import Month
from scheduler.models import LedgerHead, Period, PricePreview
from scheduler.selectors.books.scope import scope_of
from scheduler.services.books import reading
from scheduler.services.books.counting import Counted, count_month, is_much
from scheduler.services.books.posting import (
    CloseBlocked,
    locked_head,
    name_of,
    require_bookkeeper,
)
from scheduler.services.errors import Conflict


@dataclass(frozen=True, slots=True)
class Move:
    """What a month's use costs an account in the books, and what it would with the price."""

    month: str
    account: str
    before: Decimal
    change: Decimal

    @property
    def after(self) -> Decimal:
        """Before and change."""
        return EXACT.add(self.before, self.change)


def preview_price(*, actor: User, rate: Rate, now: datetime | None = None) -> PricePreview:
    """Per closed month and account, what would change, kept so that who approves sees it.

    Nothing is posted. The statements asked grow with the months that the price reaches, not with
    accounts or lines; what keeps a month from being counted is its `trouble`. Raises
    Forbidden, Conflict for a price that was decided on.
    """
    require_bookkeeper(actor)
    _require_proposed(rate)
    found = _counted(actor, rate, now or timezone.now())
    with transaction.atomic():
        found.save()
        record(actor, "rate.preview", rate, after={"moves": len(found.moves)}, now=found.at)
    return found


def months_moved(rate: Rate) -> list[Month]:
    """The months that are counted to say what a proposed price moves; raises Conflict."""
    _require_proposed(rate)
    return [month for month, _ in _reached(rate)]


def approve_price(
    *, actor: User, rate: Rate, seen: int | None = None, now: datetime | None = None
) -> Rate:
    """Approve it; what it moves is stored with the decision.

    `seen`: the preview it is decided upon; without it what it moves is counted now, or the latest
    preview counts where that would take long. Raises as `approve_rate`, and Conflict where the
    books or prices have changed since that preview, or there is none.
    """
    require_bookkeeper(actor)
    now = now or timezone.now()
    if not rate.is_restatement or not _may_hold(actor, rate):
        return approve_rate(actor=actor, rate=rate, now=now)
    if seen is None and not is_much(months_moved(rate)):
        looked: PricePreview | None = _counted(actor, rate, now)
    else:
        previews = PricePreview.objects.filter(rate=rate).order_by("-pk")
        looked = previews.filter(**({} if seen is None else {"pk": seen})).first()
    with transaction.atomic():
        # Nobody posts between the comparison and the approval.
        locked_head()
        if looked is None:
            raise Conflict("Look first at what this price moves, then approve it.")
        if looked.stamp != _stamp():
            raise Conflict("The books have changed since you looked; look at what it moves again.")
        approved = approve_rate(actor=actor, rate=rate, now=now)
        looked.decided_at = now
        looked.save()
    return approved


def _require_proposed(rate: Rate) -> None:
    rate.refresh_from_db()
    if rate.decision != RateDecision.PROPOSED:
        raise Conflict(f"This price was {rate.decision} already.")


def _may_hold(actor: User, rate: Rate) -> bool:
    """Whether it is worth counting: what may not be approved is refused by who approves."""
    return rate.decision == RateDecision.PROPOSED and rate.proposed_by_id != actor.pk


def _counted(actor: User, rate: Rate, now: datetime) -> PricePreview:
    stamp, places = _stamp(), scope_of(actor)
    shown = PricePreview(rate=rate, at=now, by=actor, stamp=stamp, currency=load_conf().currency)
    try:
        moves = list(_moves(rate))
    except CloseBlocked as blocked:
        shown.trouble = blocked.detail[:400]
        return shown
    for move in moves:
        place = places.place(move.account)
        path = "/".join(word for word in (place.team, place.project) if word)
        shown.moves.append(
            {
                "month": move.month,
                "account": move.account,
                "name": path or move.account,
                "before": _exact(move.before),
                "after": _exact(move.after),
                "change": _exact(move.change),
            }
        )
    return shown


def _exact(amount: Decimal) -> str:
    """All its digits, none behind the last that counts."""
    text = plain(amount)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _moves(rate: Rate) -> Iterator[Move]:
    for month, period in _reached(rate):
        counted = count_month(month, period, also=rate)
        if found := blocking(counted.findings):
            raise CloseBlocked(period.name, found)
        yield from _changes(period, reading.booked_for(period), counted)


def _reached(rate: Rate) -> list[tuple[Month, Period]]:
    """Months that were closed at least once and that the price holds in."""
    if not rate.is_restatement:
        return []
    from_s = int(rate.valid_from.timestamp())
    rows = Period.objects.exclude(version=0).order_by("name")
    found = [(Month.parse(period.name), period) for period in rows]
    return [(month, period) for month, period in found if month.end_s > from_s]


def _changes(
    period: Period, booked: Mapping[BookKey, tuple[int, Decimal, Decimal]], counted: Counted
) -> list[Move]:
    where = Posting("preview", period.name, period.name, name_of(None), is_correction=True)
    before: dict[str, Decimal] = {}
    for key, (_, amount, _) in booked.items():
        before[key.account] = EXACT.add(before.get(key.account, ZERO), amount)
    change: dict[str, Decimal] = {}
    for entry in entries_of(counted.tallies, booked, where):
        is_owed = entry.credit == RECOVERY
        account = entry.debit if is_owed else entry.credit
        amount = entry.amount if is_owed else EXACT.minus(entry.amount)
        change[account] = EXACT.add(change.get(account, ZERO), amount)
    return [
        Move(period.name, account, before.get(account, ZERO), change[account])
        for account in sorted(change)
        if change[account]
    ]


def _stamp() -> str:
    """The chain's end and the last decision on a price, as one word."""
    head = LedgerHead.objects.order_by("pk").first()
    last = Rate.objects.aggregate(last=Max("decided_at"))["last"]
    return f"{head.number if head else 0}.{last.timestamp() if last else 0}"
