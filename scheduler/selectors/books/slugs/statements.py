"""Statements line by line."""

from __future__ import annotations

from decimal import Decimal

from scheduler.ledger.currencies import from_minor
from scheduler.ledger.exact import gpu_hours, total
from scheduler.models import Statement, StatementLine
from scheduler.selectors.books.frame import (
    Ask,
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
from scheduler.selectors.books.months import Books, effect_of
from scheduler.selectors.books.scope import Scope

_LINES = Drill("job-cost", {"team": "team", "project": "project", "sku": "sku", "rate": "rate"})
_STATEMENT = (
    Column("statement", "Statement", Form.COUNT, is_statement=True),
    Column("entry", "Entry", Form.COUNT, is_detail=True),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("kind", "What"),
    Column("sku", "Charged for"),
    Column("rate", "Rate", is_detail=True),
    Column("service_period", "For"),
    Column("reason", "Note"),
    Column("gpu_seconds", "GPU-seconds", Form.SECONDS, is_file_only=True, is_summed=True),
    Column("gpu_hours", "GPU-h", Form.HOURS),
    Column("unit_price", "Per GPU-h", Form.PRICE),
    Column("amount", "Exact", Form.AMOUNT, is_summed=True, drill=_LINES, is_exact=True),
    Column("billed", "Billed", Form.AMOUNT, is_summed=True, is_lead=True),
    Column("currency", "Currency", is_file_only=True),
)


def _team_statement(ask: Ask, scope: Scope) -> Sheet:
    books = scope.books(ask.period)
    accounts = scope.accounts(ask.team, ask.project)
    statements: list[Statement] = []
    if books.close is not None:
        found = Statement.objects.filter(close=books.close).order_by("number")
        teams = None if accounts is None else {a.partition("/")[0] for a in accounts}
        statements = [s for s in found if teams is None or s.account in teams]
    parts = (
        StatementLine.objects.filter(statement__in=[s.pk for s in statements])
        .select_related("statement", "entry__service_period")
        .order_by("statement__number", "entry__debit", "entry__credit", "entry__number")
    )
    rows = [_statement_row(part, scope, books) for part in parts]
    checks = [
        Check(
            "lines equal statements, billed",
            total(row[13] for row in rows if isinstance(row[13], Decimal)),
            from_minor(sum(s.units for s in statements), books.currency),
            books.currency,
        ),
        Check(
            "lines equal statements, exact",
            total(row[12] for row in rows if isinstance(row[12], Decimal)),
            total(s.exact for s in statements),
            books.currency,
            is_exact=True,
        ),
    ]
    if ask.project:
        rows = [row for row in rows if f"{row[2]}/{row[3]}" == ask.project]
    return sheet_of(
        _STATEMENT,
        rows,
        ask,
        checks,
        currency=books.currency,
        version=books.version,
        state=books.state,
        remarks=books.remarks,
    )


def _statement_row(part: StatementLine, scope: Scope, books: Books) -> Cells:
    effect = effect_of(part.entry)
    place = scope.place(effect.account)
    return (
        part.statement.number,
        part.entry.number,
        place.team,
        place.project,
        part.entry.kind,
        part.entry.sku,
        str(part.entry.rate_id or ""),
        part.entry.service_period.name,
        part.entry.reason,
        effect.gpu_seconds,
        gpu_hours(effect.gpu_seconds),
        part.entry.unit_price if part.entry.sku else None,
        effect.amount,
        from_minor(part.units, books.currency),
        part.entry.currency,
    )


REPORTS = (
    Report(
        "team-statement",
        "Team statement",
        "Every line of a team's bill, in cents and exact.",
        "project × what is charged × rate",
        _STATEMENT,
        Who.BOOKS | Who.TEAMS,
        _team_statement,
        frozenset({"team", "project"}),
        ("sku", "billed"),
    ),
)
