"""Closing a month: check, rate, post, bill; all of it or nothing, and twice is once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler.ledger.bills import Bill, draw_bills, rounding_entries
from scheduler.ledger.closing import Posting
from scheduler.ledger.findings import Finding, blocking
from scheduler.ledger.periods import Month, PeriodState, obstacles
from scheduler.models import (
    DeviceSegment,
    LedgerEntry,
    LedgerHead,
    Period,
    PeriodClose,
    Statement,
    StatementLine,
    UsageLine,
)
from scheduler.selectors.books.chain import chained
from scheduler.selectors.books.focus.kept import memory_of_models, racks_of_nodes
from scheduler.services import transitions
from scheduler.services.books.budgets.truing import true_up_after
from scheduler.services.books.costs.recovery import amortisation
from scheduler.services.books.counting import Counted, count_month
from scheduler.services.books.lines import claim_close, claimed, drop_lines
from scheduler.services.books.posting import (
    CloseBlocked,
    locked_head,
    name_of,
    period_named,
    post_entries,
    require_bookkeeper,
    require_unchanged,
)
from scheduler.services.books.recounting import (
    Recount,
    drafts_of,
    months_that_lost,
    post_losses,
    post_recount,
    recount,
)
from scheduler.services.books.sealing import digest_of, seal_of
from scheduler.services.demo.mixing import mixed_months
from scheduler.services.errors import Conflict, Invalid


def month_of(name: str) -> Month:
    """`2026-11` as a month; raises Invalid."""
    try:
        return Month.parse(name)
    except ValueError as error:
        raise Invalid(str(error), field="period") from None


def soft_close_period(
    *, actor: User, period: str, seen: str = "", now: datetime | None = None
) -> Period:
    """Let nobody post by hand in a month any more; usage that comes late still counts. Budgets are
    then held against the ledger.

    `seen`: the stamp of the month that was looked at. Raises Conflict if it has changed since,
    CloseBlocked for a month that is not over: nothing could be posted by hand until the next one
    begins, and nobody takes a soft close back.
    """
    require_bookkeeper(actor)
    now = now or timezone.now()
    row = soft_close_month(actor, month_to_soft_close(period, seen, now), seen, now)
    true_up_after(f"the soft close of {row.name}", now=now)
    return row


@transaction.atomic
def soft_close_month(by: User | None, month: Month, seen: str, now: datetime) -> Period:
    """As `soft_close_period`, for callers that have looked who may; None is the system."""
    row = period_named(str(month))
    require_unchanged(row, seen)
    if row.state != PeriodState.OPEN:
        return row
    transitions.move_period(row, PeriodState.SOFT_CLOSED, soft_closed_at=now)
    state = {"state": str(PeriodState.SOFT_CLOSED)}
    record(by, "period.soft_close", row, before={"state": "open"}, after=state, now=now)
    return row


def close_period(
    *, actor: User, period: str, seen: str = "", now: datetime | None = None
) -> PeriodClose:
    """Close a month; raises CloseBlocked with everything that stands in the way.

    `seen` as in `soft_close_period`.

    1. The calendar: it is over, and the months before it are closed.
    2. The segments are a partition; every charged second has a payer and a price.
    3. Earlier months that were charged for what was lost in this one are counted anew.
    4. Lines are written as they are rated, in transactions of their own: others may write
       meanwhile, and what a close that broke off left behind is dropped by the next one. Of two
       at once the later one goes on and the other one gets Conflict.
    5. In one transaction: entries, rounding, statements, the close itself.
    6. Budgets are held against the ledger.

    A closed month is refused; closing a reopened one posts the differences.
    """
    require_bookkeeper(actor)
    return close_month(actor, month_of(period), seen, now or timezone.now())


def month_as_seen(name: str, seen: str) -> tuple[Month, Period]:
    """Raises Invalid, Conflict if it has changed since it was seen."""
    month = month_of(name)
    row = period_named(str(month))
    require_unchanged(row, seen)
    return month, row


def month_to_soft_close(name: str, seen: str, now: datetime) -> Month:
    """A month that may be closed softly; raises as `soft_close_period`."""
    month, row = month_as_seen(name, seen)
    state = PeriodState(row.state)
    if state is PeriodState.OPEN:
        _refuse(month, obstacles(month, state, now_s=int(now.timestamp()), earlier_open=None))
    return month


def month_to_close(name: str, seen: str, now: datetime) -> tuple[Month, Period]:
    """A month that may be closed as far as can be told without counting it.

    Raises Invalid, Conflict if it has changed since it was seen, CloseBlocked.
    """
    month, row = month_as_seen(name, seen)
    state = PeriodState(row.state)
    found = obstacles(
        month, state, now_s=int(now.timestamp()), earlier_open=first_open_before(month)
    )
    _refuse(month, [*found, *mixed_months(month)])
    return month, row


def close_month(by: User | None, month: Month, seen: str, now: datetime) -> PeriodClose:
    """As `close_period`, for callers that have looked who may; None is the system."""
    month, row = month_to_close(str(month), seen, now)
    row = soft_close_month(by, month, "", now)
    late = [recount(*earlier) for earlier in months_that_lost(month)]
    is_first = row.version == 0
    claim_close(row)
    if is_first:
        drop_lines(row)
    counted = count_month(month, row, keep_lines=is_first)
    _refuse(month, blocking(counted.findings))
    close = _fix(row, counted, late, by, now)
    true_up_after(f"the close of {row.name}", now=now)
    return close


def correct_period(
    *, actor: User, period: str, reason: str, now: datetime | None = None
) -> list[LedgerEntry]:
    """Post what a closed month should hold less what it holds, into the month of now.

    For facts that came late and prices that were restated; posts nothing where nothing differs.
    Raises Conflict where somebody else has corrected it meanwhile.
    """
    require_bookkeeper(actor)
    if not reason.strip():
        raise Invalid("Say what is corrected.", field="reason")
    return correct_month(actor, month_of(period), reason.strip(), now or timezone.now())


def month_to_correct(name: str) -> tuple[Month, Period]:
    """A month that is closed; raises Invalid, Conflict."""
    month = month_of(name)
    row = period_named(str(month))
    if row.state != PeriodState.CLOSED:
        raise Conflict(f"{month} is not closed; what is known now counts when it is.")
    return month, row


def correct_month(by: User | None, month: Month, reason: str, now: datetime) -> list[LedgerEntry]:
    """As `correct_period`, for callers that have looked who may; None is the system."""
    month, row = month_to_correct(str(month))
    here = Month.of(int(now.timestamp()))
    found = recount(month, row)
    with transaction.atomic():
        # The head's lock lets one correction at a time see what is booked.
        head = locked_head()
        where = Posting(
            batch=f"correct {month} {head.number + 1}",
            period=str(here),
            service_period=str(month),
            created_by=name_of(by),
            reason=reason[:255],
            is_correction=True,
        )
        posted = post_recount(found, where)
        after = {"entries": len(posted), "booked_in": str(here)}
        record(by, "period.correct", row, after=after, reason=reason, now=now)
        return posted


def _refuse(month: Month, findings: Sequence[Finding]) -> None:
    if findings:
        raise CloseBlocked(str(month), findings)


def first_open_before(month: Month) -> Month | None:
    """The earliest month with segments that is not closed; months are closed in order."""
    first = DeviceSegment.objects.order_by("pk").values_list("start_s", flat=True).first()
    if first is None:
        return None
    closed = set(Period.objects.filter(state=PeriodState.CLOSED).values_list("name", flat=True))
    at = Month.of(first)
    while at < month and str(at) in closed:
        at = at.following
    return at if at < month else None


@transaction.atomic
def _fix(
    row: Period, counted: Counted, late: Sequence[Recount], by: User | None, now: datetime
) -> PeriodClose:
    # In the order of whoever posts: a correction of this month may have been begun before.
    locked_head()
    period = claimed(row)
    is_first = period.version == 0
    if is_first and UsageLine.objects.filter(period=period).count() != counted.lines:
        raise Conflict(f"Lines of {period.name} were changed while it was closed; close it again.")
    where = Posting(
        batch=f"close {period.name} v{period.version + 1}",
        period=period.name,
        service_period=period.name,
        created_by=name_of(by),
        is_correction=not is_first,
    )
    post_losses(late, where, by, now)
    post_entries(amortisation(Month.parse(period.name), where))
    post_entries(drafts_of(counted, period, where))
    posted = {e.number: e for e in chained.entries_named().filter(period=period)}
    control, bills = draw_bills(
        (link.entry for link in chained.chain_of(posted.values())), period.currency
    )
    post_entries(rounding_entries(bills, period.currency, where))
    head = LedgerHead.objects.order_by("pk").first()
    last = Statement.objects.order_by("-number").values_list("number", flat=True).first() or 0
    close = PeriodClose.objects.create(
        period=period,
        version=period.version + 1,
        closed_by=by,
        closed_at=now,
        control=control,
        seconds={str(bucket): seconds for bucket, seconds in counted.audit.seconds.items()},
        findings=[f"{f.subject} {f.words}" for f in counted.findings],
        shares=counted.shares,
        recovery=counted.recovery,
        lines=sum(tally.lines for tally in counted.tallies.by_key.values()),
        head_number=head.number if head else 0,
        head_hash=head.hash if head else "",
        sealed=seal_of(period, bills, last + 1),
        gpu_memory_gib=memory_of_models(period),
        racks=racks_of_nodes(period),
    )
    _state(close, bills, posted, last + 1)
    transitions.move_period(period, PeriodState.CLOSED, version=close.version)
    after: dict[str, Any] = {"version": close.version, "control": control, "entries": len(posted)}
    after |= {"head_number": close.head_number, "head_hash": close.head_hash}
    after["seal"] = digest_of(close.sealed or {})
    record(by, "period.close", period, after=after, now=now)
    return close


def _state(
    close: PeriodClose, bills: Sequence[Bill], posted: dict[int, LedgerEntry], first: int
) -> None:
    """The statements of a close and their parts; numbers go on without a gap."""
    for number, bill in enumerate(bills, first):
        statement = Statement.objects.create(
            number=number,
            close=close,
            account=bill.account,
            exact=bill.exact,
            units=bill.units,
            rounding=bill.rounding,
        )
        StatementLine.objects.bulk_create(
            (
                StatementLine(statement=statement, entry=posted[part], units=units)
                for part, units in bill.parts.items()
            ),
            batch_size=500,
        )
