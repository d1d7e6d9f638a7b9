"""The lines behind every amount, narrowed to what a viewer may see and tied to their entries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet, Sum

from scheduler.ledger.exact import ZERO, total
from scheduler.models import LedgerEntry, UsageLine
from scheduler.models.exact import ExactSum
from scheduler.selectors.books.frame import (
    Ask,
    Check,
    Column,
    Drill,
    Form,
    Report,
    Row,
    Sheet,
    Who,
)
from scheduler.selectors.books.months import Books, books_of, effects
from scheduler.selectors.books.scope import Scope

PAGE = 5_000
TAKES = frozenset({"team", "project", "sku", "rate", "attempt"})
ANYBODY = Who.BOOKS | Who.TEAMS | Who.OWN


def lines_asked(
    books: Books, ask: Ask, scope: Scope
) -> tuple[QuerySet[UsageLine], list[str] | None]:
    """The month's lines the viewer may see, narrowed; and the accounts, None for all.

    Who keeps no books and leads no team gets the lines of own jobs.
    """
    lines = (
        UsageLine.objects.filter(period=books.period) if books.period else UsageLine.objects.none()
    )
    accounts = None
    if is_own(scope):
        lines = lines.filter(attempt__job__owner=scope.viewer)
    else:
        accounts = scope.accounts(ask.team, ask.project)
        if accounts is not None:
            lines = lines.filter(account__in=accounts)
    if ask.sku:
        flavour, _, kind = ask.sku.rpartition(":")
        lines = lines.filter(flavour=flavour, kind=kind)
    if ask.rate:
        lines = lines.filter(rate_id=int(ask.rate)) if ask.rate.isdecimal() else lines.none()
    if ask.attempt:
        lines = lines.filter(attempt_id=ask.attempt)
    return lines, accounts


def is_own(scope: Scope) -> bool:
    """Whether the viewer sees own jobs only."""
    return not scope.is_all and not scope.teams


def in_pages(lines: QuerySet[UsageLine], after: int, *fields: str) -> Iterator[tuple[Any, ...]]:
    """Lines in the order they were written, page by page; the first field is the key."""
    last = after
    while True:
        page = list(lines.filter(pk__gt=last).order_by("pk").values_list(*fields)[:PAGE])
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1][0]


def line_checks(
    books: Books, ask: Ask, accounts: list[str] | None, scope: Scope, shown: Decimal, seconds: int
) -> list[Check]:
    """Lines against the entries that sum them. One's own jobs have no entry of their own."""
    if ask.attempt or is_own(scope) or books.period is None:
        return []
    entries = LedgerEntry.objects.filter(period=books.period).exclude(lines=0)
    if ask.sku:
        entries = entries.filter(sku=ask.sku)
    if ask.rate.isdecimal():
        entries = entries.filter(rate_id=int(ask.rate))
    found = list(effects(entries, accounts))
    return [
        Check("equals ledger", shown, total(e.amount for e in found), books.currency),
        Check("GPU-seconds equal ledger", seconds, sum(e.gpu_seconds for e in found), "GPU-s"),
    ]


_USAGE = (
    Column("line", "Line", Form.COUNT, is_file_only=True),
    Column("day", "Day", Form.DAY),
    Column("attempt", "Attempt", Form.COUNT, drill=Drill("segments", {"attempt": "attempt"})),
    Column("job", "Job", Form.COUNT, is_job=True),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("flavour", "GPU"),
    Column("kind", "Kind"),
    Column("rate", "Rate"),
    Column("unit_price", "Per GPU-h", Form.PRICE),
    Column(
        "gpu_seconds", "GPU-seconds", Form.SECONDS, is_summed=True,
        drill=Drill("segments", {"attempt": "attempt"}),
    ),
    Column("amount", "Amount", Form.AMOUNT, is_summed=True),
    Column("currency", "Currency", is_file_only=True),
)  # fmt: skip
_USAGE_FIELDS = (
    "pk",
    "day_s",
    "attempt_id",
    "attempt__job_id",
    "account",
    "flavour",
    "kind",
    "rate_id",
    "unit_price",
    "gpu_seconds",
    "amount",
)


def _usage_lines(ask: Ask, scope: Scope) -> Sheet:
    books = books_of(ask.period)
    lines, accounts = lines_asked(books, ask, scope)
    sums = lines.aggregate(amount=ExactSum("amount"), seconds=Sum("gpu_seconds"))
    amount, seconds = sums["amount"] or ZERO, sums["seconds"] or 0

    def rows(after: int) -> Iterator[Row]:
        for found in in_pages(lines, after, *_USAGE_FIELDS):
            pk, day_s, attempt, job, account, flavour, kind, rate, price, held, owed = found
            place = scope.place(account)
            day = datetime.fromtimestamp(day_s, UTC).date()
            head = (pk, day, attempt, job, place.team, place.project, flavour, kind, str(rate))
            yield Row(pk, (*head, price, held, owed, books.currency))

    return Sheet(
        rows,
        {"gpu_seconds": seconds, "amount": amount},
        line_checks(books, ask, accounts, scope, amount, seconds),
        currency=books.currency,
        version=books.version,
        state=books.state,
        remarks=books.remarks,
    )


REPORTS = (
    Report(
        "usage-lines",
        "Usage lines",
        "The lines behind an amount: seconds of a day, a kind and a rate, priced once.",
        "usage line",
        _USAGE,
        ANYBODY,
        _usage_lines,
        TAKES,
        is_streamed=True,
        is_trail=True,
    ),
)
