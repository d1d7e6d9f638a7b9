"""Every night on live data: does what was measured, booked, billed and shown still tie together?

Reads only, apart from its own row and the audit's note of where the chain ends. Each check says
what ties to what; a difference that a correction would post is told as such and is no error of the
books.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from django.utils import timezone

from scheduler.ledger.bills import draw_bills
from scheduler.ledger.budgets.actuals import Actual
from scheduler.ledger.closing import Posting, entries_of
from scheduler.ledger.periods import Month, PeriodState
from scheduler.ledger.segments import IN_SERVICE
from scheduler.models import Budget, LedgerEntry, Period, PeriodClose, Reconciliation, Statement
from scheduler.selectors.books.chain import chained
from scheduler.selectors.books.slugs.actuals import used_of, with_figures
from scheduler.services.books import reading
from scheduler.services.books.counting import count_month
from scheduler.services.books.sealing import check_seals, closes_before_seals
from scheduler.services.books.verifying import (
    anchor_head,
    check_chain,
    check_lines,
    check_statements,
)

_SHOWN = 5


def reconcile_books(*, now: datetime | None = None) -> Reconciliation:
    """Run all checks and keep what they found.

    The head of a chain that holds is noted in the audit; a broken one is nothing to hold on to.
    """
    now = now or timezone.now()
    checks = [_told(slug, what, breaks) for slug, what, breaks in _checks(now)]
    if all(one["holds"] for one in checks if one["slug"] in ("chain", "anchors")):
        anchor_head(now=now)
    return Reconciliation.objects.create(
        at=now, holds=all(one["holds"] for one in checks), checks=checks
    )


def _told(slug: str, what: str, breaks: list[str]) -> dict[str, Any]:
    more = [f"and {len(breaks) - _SHOWN} more"] if len(breaks) > _SHOWN else []
    words = "; ".join([*breaks[:_SHOWN], *more])
    return {"slug": slug, "what": what, "holds": not breaks, "words": words}


def _checks(now: datetime) -> Iterator[tuple[str, str, list[str]]]:
    """F1, F23, F7, F5, F9, F15 of the ledger's README, then what was learnt since."""
    this = Month.of(int(now.timestamp()))
    months = sorted({this, Month.of(this.start_s - 1)})
    for month in months:
        what = f"GPU time of {month}: allocated + idle + unallocated = in service"
        yield "partition", what, _partition(month)
        yield (
            "attribution",
            f"GPU time of {month} that belongs to nobody = 0",
            reading.nobodys(month),
        )
    chain = check_chain()
    yield "chain", f"{chain.entries} ledger entries are as they were posted", list(chain.broken)
    what = f"ledger chain = {chain.anchors} heads that closes and the audit noted"
    yield "anchors", what, list(chain.unanchored)
    yield "balance", "debits = credits", list(chain.unbalanced)
    closed = list(Period.objects.exclude(version=0).order_by("name"))
    yield (
        "lines",
        "lines of statements = ledger entries",
        _each(closed, lambda period: check_lines(period)[0]),
    )
    yield (
        "statements",
        "sums: jobs = lines = statements = control total",
        _each(closed, check_statements),
    )
    old = closes_before_seals()
    what = "books = what their closes sealed" + (
        f"; closes from before seals: {old}" if old else ""
    )
    yield "seals", what, _each(closed, check_seals)
    yield "reports", "ledger = what reports add up to", _each(closed, _reported)
    yield (
        "budgets",
        "spent of budgets = settled holds + what they began with + true-ups",
        _counters(),
    )
    still = [p for p in closed if p.state == PeriodState.CLOSED]
    for period in _to_recount(still):
        what = f"{period.name}: booked = counted anew from segments"
        yield "recount", what, _recount(Month.parse(period.name), period)


def _to_recount(closed: list[Period]) -> list[Period]:
    """The last month that is closed, and those that entries were booked for in it or since: a
    minute each where they are large, so not every month there ever was."""
    if not closed:
        return []
    late = LedgerEntry.objects.filter(period__name__gte=closed[-1].name).exclude(sku="")
    names = set(late.order_by().values_list("service_period__name", flat=True).distinct())
    return [period for period in closed if period.name in names or period is closed[-1]]


def _counters() -> list[str]:
    """Budgets whose counter is not the sum of what moved it; one statement, in steps of money."""
    rows = with_figures(Budget.objects.order_by("pk"))
    return [
        f"budget {one.budget.pk} counts {one.budget.spent}, what moved it is "
        f"{one.settled + one.moved}"
        for one in (used_of(row, Actual()) for row in rows)
        if one.budget.spent != one.settled + one.moved
    ]


def _each(periods: list[Period], check: Callable[[Period], list[str]]) -> list[str]:
    return [words for period in periods for words in check(period)]


def _partition(month: Month) -> list[str]:
    found, _ = reading.audit_month(month)
    breaks = [f"{finding.subject} {finding.words}" for finding in found.findings]
    counted = sum(found.seconds[bucket] for bucket in IN_SERVICE)
    if counted != found.span:
        breaks.append(f"{counted} s lie in buckets, {found.span} s were in service")
    return breaks


def _reported(period: Period) -> list[str]:
    """A month's entries added up anew against its last close, account by account."""
    close = PeriodClose.objects.filter(period=period).order_by("-version").first()
    if close is None or period.state != PeriodState.CLOSED:
        return []
    rows = chained.entries_named().filter(period=period, number__lte=close.head_number)
    entries = (link.entry for link in chained.chain_of(rows.iterator(reading.PAGE)))
    control, bills = draw_bills(entries, period.currency)
    shown = dict(Statement.objects.filter(close=close).values_list("account", "units"))
    if control == close.control and {bill.account: bill.units for bill in bills} == shown:
        return []
    return [f"{period.name} adds up to {control}, its close says {close.control}"]


def _recount(month: Month, period: Period) -> list[str]:
    counted = count_month(month, period)
    where = Posting("reconcile", period.name, period.name, "system", is_correction=True)
    drafts = entries_of(counted.tallies, reading.booked_for(period), where)
    if not drafts:
        return []
    accounts = sorted({draft.debit for draft in drafts} | {draft.credit for draft in drafts})
    return [
        f"what is known now differs by {len(drafts)} entries ({', '.join(accounts[:_SHOWN])}); "
        f"post a correction of {month}"
    ]
