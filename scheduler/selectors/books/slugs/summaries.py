"""Months by account: what each owes, what adjustments did, what a reopening moved."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise

from accounts.models import AuditEvent
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.entries import team_of
from scheduler.ledger.exact import EXACT, ZERO, total
from scheduler.models import Adjustment, LedgerEntry, PeriodClose, Statement
from scheduler.selectors.books.adding import Adds
from scheduler.selectors.books.frame import (
    Ask,
    Bars,
    Cells,
    Check,
    Column,
    Drill,
    Form,
    Report,
    Sheet,
    Who,
    sheet_of,
)
from scheduler.selectors.books.months import Books, Effect, effects
from scheduler.selectors.books.scope import Scope

_STATEMENT = Drill("team-statement", {"team": "team", "project": "project"})
_HOURS = {
    "guaranteed": "run-guaranteed",
    "borrowed": "run-borrowed",
    "overhead": "overhead",
    "reserved_idle": "reserved-idle",
}
_AMOUNTS = {
    "guaranteed_amount": ("run-guaranteed",),
    "borrowed_amount": ("run-borrowed",),
    "overhead_amount": ("overhead",),
    "reserved_idle_amount": ("reserved-idle",),
    "shares_amount": ("idle-share", "platform-share"),
    "adjustments": ("adjustment", "credit"),
    "corrections": ("correction",),
    "rounding": ("rounding",),
}


def _amount(name: str, title: str, *, drill: Drill | None = None, is_lead: bool = False) -> Column:
    return Column(name, title, Form.AMOUNT, is_summed=True, drill=drill, is_lead=is_lead)


_SUMMARY = (
    Column("account", "Account", is_file_only=True),
    Column("team", "Team", drill=Drill("team-statement", {"team": "team"})),
    Column("project", "Project"),
    *(
        Column(
            f"{name}_gpu_seconds", f"{name.replace('_', ' ').capitalize()} h", Form.SECONDS, True
        )
        for name in _HOURS
    ),
    _amount("guaranteed_amount", "Guaranteed"),
    _amount("borrowed_amount", "Borrowed"),
    _amount("overhead_amount", "Overhead"),
    _amount("reserved_idle_amount", "Reserved idle"),
    _amount("shares_amount", "Shares"),
    _amount("other_amount", "Other use"),
    _amount("adjustments", "Adjustments", drill=Drill("adjustments", {"team": "team"})),
    _amount("corrections", "Corrections", drill=Drill("adjustments", {"team": "team"})),
    _amount("rounding", "Rounding"),
    _amount("total", "Total", drill=_STATEMENT, is_lead=True),
    Column("currency", "Currency", is_file_only=True),
)


def _entries(books: Books) -> list[LedgerEntry]:
    if books.period is None:
        return []
    return list(LedgerEntry.objects.filter(period=books.period).order_by("number"))


def _period_summary(ask: Ask, scope: Scope) -> Sheet:
    books = scope.books(ask.period)
    accounts = scope.accounts(ask.team, ask.project)
    found: dict[str, list[Effect]] = {}
    # Rounding is booked on the team, so a team's rows with it are its statement.
    for effect in effects(_entries(books), accounts):
        found.setdefault(effect.account, []).append(effect)
    rows = [_summed(account, found[account], scope, books.currency) for account in sorted(found)]
    owed = total(effect.amount for each in found.values() for effect in each)
    shown = total(row[-2] for row in rows if isinstance(row[-2], Decimal))
    checks = [Check("equals ledger", shown, owed, books.currency)]
    if books.close is not None and not ask.project:
        statements = [
            s
            for s in Statement.objects.filter(close=books.close)
            if accounts is None or s.account in accounts
        ]
        stated = from_minor(sum(s.units for s in statements), books.currency)
        checks.append(Check("equals statements", shown, stated, books.currency))
        if accounts is None:
            control = from_minor(books.close.control, books.currency)
            checks.append(Check("equals control total", shown, control, books.currency))
    return sheet_of(_SUMMARY, rows, ask, checks, **_frame(books))


def _frame(books: Books) -> dict[str, object]:
    return {
        "currency": books.currency,
        "version": books.version,
        "state": books.state,
        "remarks": books.remarks,
    }


def _summed(account: str, effects: list[Effect], scope: Scope, currency: str) -> Cells:
    place = scope.place(account)
    seconds: dict[str, int] = {}
    amounts: dict[str, Decimal] = {}
    for effect in effects:
        seconds[effect.kind] = seconds.get(effect.kind, 0) + effect.gpu_seconds
        amounts[effect.kind] = EXACT.add(amounts.get(effect.kind, ZERO), effect.amount)
    sums = {
        name: total(amounts.pop(kind, ZERO) for kind in kinds) for name, kinds in _AMOUNTS.items()
    }
    sums["other_amount"] = total(amounts.values())
    ordered = [column.name for column in _SUMMARY if column.name in sums]
    return (
        account,
        place.team,
        place.project,
        *(seconds.get(kind, 0) for kind in _HOURS.values()),
        *(sums[name] for name in ordered),
        total(sums.values()),
        currency,
    )


_ADJUSTMENTS = (
    Column("entry", "Entry", Form.COUNT),
    Column("kind", "What"),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("reason", "Why"),
    Column("proposed_by", "Proposed by"),
    Column("approved_by", "Approved by"),
    Column("service_period", "For"),
    Column("booked_in", "Booked in"),
    Column("sku", "Charged for"),
    Column("gpu_seconds", "GPU-h", Form.SECONDS, is_summed=True),
    _amount("effect", "Effect"),
    Column("currency", "Currency", is_file_only=True),
)
_BY_HAND = ("adjustment", "correction", "credit")


def _adjustments(ask: Ask, scope: Scope) -> Sheet:
    books = scope.books(ask.period)
    accounts = scope.accounts(ask.team, ask.project)
    entries = [entry for entry in _entries_named(books) if entry.kind in _BY_HAND]
    proposals = {
        each.entry_id: each
        for each in Adjustment.objects.filter(entry__in=[e.pk for e in entries]).select_related(
            "proposed_by", "decided_by"
        )
    }
    rows: list[Cells] = []
    for effect in effects(entries, accounts):
        entry, place = effect.entry, scope.place(effect.account)
        proposal = proposals.get(entry.pk)
        proposer = proposal.proposed_by.username if proposal and proposal.proposed_by else ""
        decider = proposal.decided_by.username if proposal and proposal.decided_by else ""
        row = (entry.number, entry.kind, place.team, place.project, entry.reason, proposer)
        months = (entry.service_period.name, entry.period.name)
        cells = (entry.sku, effect.gpu_seconds, effect.amount, entry.currency)
        rows.append((*row, decider or entry.created_by, *months, *cells))
    counted = sum(
        1
        for entry in entries
        if accounts is None or entry.debit in accounts or entry.credit in accounts
    )
    checks = [Check("count equals ledger", len(rows), counted, "entries")]
    return sheet_of(_ADJUSTMENTS, rows, ask, checks, **{**_frame(books), "remarks": ()})


def _entries_named(books: Books) -> list[LedgerEntry]:
    if books.period is None:
        return []
    rows = LedgerEntry.objects.filter(period=books.period, kind__in=_BY_HAND)
    return list(rows.select_related("period", "service_period").order_by("number"))


_RESTATEMENTS = (
    Column("version", "Version", Form.COUNT),
    Column("closed_at", "Closed", Form.MOMENT),
    Column("account", "Account", is_file_only=True),
    Column("team", "Team", drill=Drill("team-statement", {"team": "team"})),
    Column("before", "Before", Form.AMOUNT),
    Column("after", "After", Form.AMOUNT),
    _amount("delta", "Difference"),
    Column("cause", "Cause"),
    Column("currency", "Currency", is_file_only=True),
)


def _restatements(ask: Ask, scope: Scope) -> Sheet:
    """What each close after the first moved, by statement; in whole cents, as it was billed."""
    books = scope.books(ask.period)
    accounts = scope.accounts(ask.team)
    closes = (
        list(
            PeriodClose.objects.filter(period=books.period)
            .order_by("version")
            .prefetch_related("statements")
        )
        if books.period
        else []
    )
    rows: list[Cells] = []
    moved = 0
    causes = _causes(books)
    for old, new in pairwise(closes):
        before, after = _units(old, accounts), _units(new, accounts)
        moved += sum(after.values()) - sum(before.values())
        for account in sorted({*before, *after}):
            units = (before.get(account, 0), after.get(account, 0))
            if units[0] == units[1]:
                continue
            then, now = (from_minor(each, books.currency) for each in units)
            place = scope.place(account)
            delta = EXACT.subtract(now, then)
            row = (new.version, new.closed_at, account, place.team, then, now, delta)
            rows.append((*row, causes.get(old.version, ""), books.currency))
    shown = total(row[6] for row in rows if isinstance(row[6], Decimal))
    ends = ZERO
    if closes:
        first, last = _units(closes[0], accounts), _units(closes[-1], accounts)
        ends = from_minor(sum(last.values()) - sum(first.values()), books.currency)
    checks = [
        Check("differences equal statements", shown, ends, books.currency),
        Check("versions add up", from_minor(moved, books.currency), ends, books.currency),
    ]
    return sheet_of(_RESTATEMENTS, rows, ask, checks, **_frame(books))


def _causes(books: Books) -> dict[int, str]:
    """Why each version was reopened, by its number; a mere proposal to reopen gives no cause."""
    key = str(books.period.pk) if books.period else ""
    of_month = AuditEvent.objects.filter(subject_kind="period", subject_id=key)
    found = of_month.filter(action="period.reopen").order_by("pk").values_list("before", "reason")
    return {json.loads(before)["version"]: reason for before, reason in found}


def _units(close: PeriodClose, accounts: list[str] | None) -> dict[str, int]:
    return {
        s.account: s.units
        for s in close.statements.all()
        if accounts is None or team_of(s.account) in accounts
    }


REPORTS = (
    Report(
        "period-summary",
        "Period summary",
        "What each account used and owes in a month, by kind.",
        "account",
        _SUMMARY,
        Who.BOOKS | Who.TEAMS,
        _period_summary,
        frozenset({"team", "project"}),
        ("project", "total"),
        (Bars((*_AMOUNTS, "other_amount")),),
        adds=(Adds("total", (*_AMOUNTS, "other_amount")),),
    ),
    Report(
        "adjustments",
        "Adjustments",
        "Entries that are no usage: by hand, credits, corrections; who asked and who agreed.",
        "entry",
        _ADJUSTMENTS,
        Who.BOOKS | Who.TEAMS,
        _adjustments,
        frozenset({"team", "project"}),
        ("project", "effect"),
    ),
    Report(
        "restatements",
        "Restatements",
        "What closing a month again moved, statement by statement.",
        "period version × account",
        _RESTATEMENTS,
        Who.BOOKS | Who.TEAMS,
        _restatements,
        frozenset({"team"}),
        ("team", "delta"),
    ),
)
