"""The lines behind every amount, narrowed to what a viewer may see and tied to their entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import BigIntegerField, CharField, F, QuerySet, Sum, Value
from django.db.models.functions import Cast

from accounts.errors import Invalid
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
from scheduler.selectors.books.months import Books, Effect, effects
from scheduler.selectors.books.scope import Scope

PAGE = 5_000
TAKES = frozenset({"team", "project", "sku", "rate", "attempt"})
_TAKES = TAKES | {"day", "flavour", "kind"}
# A bare value, not a cast one: by those nothing is grouped, so nothing is sorted.
_EMPTY = Value("", output_field=CharField())
_SUMMED = ("kind_", "debit_", "credit_", "amount_", "seconds_")
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
    exact = {"attempt_id": ask.attempt, "flavour": ask.flavour, "kind": ask.kind}
    lines = lines.filter(**{name: value for name, value in exact.items() if value})
    if ask.day:
        lines = lines.filter(day_s=day_asked(books, ask))
    return lines, accounts


def day_asked(books: Books, ask: Ask) -> int:
    """The first second of the day asked for. Raises Invalid for one that is not in the month."""
    try:
        first = int(datetime.combine(date.fromisoformat(ask.day), time(), UTC).timestamp())
    except ValueError:
        first = -1
    if not books.month.start_s <= first < books.month.end_s:
        raise Invalid(f"Name a day of {books.month}, such as {books.month}-01.", field="day")
    return first


def is_own(scope: Scope) -> bool:
    """Whether the viewer sees own jobs only."""
    return not scope.is_all and not scope.teams


def in_pages(lines: QuerySet[UsageLine], after: int, *fields: str) -> Iterator[tuple[Any, ...]]:
    """Lines in the order they were written, page by page; the first field is the key."""
    last = after
    with ExitStack() as long:
        while True:
            page = list(lines.filter(pk__gt=last).order_by("pk").values_list(*fields)[:PAGE])
            yield from page
            if len(page) < PAGE:
                return
            if last == after:
                long.enter_context(unmapped())
            last = page[-1][0]


@contextmanager
def unmapped() -> Iterator[None]:
    """Read SQLite's file without mapping it: what is read once would stay in the process.

    For whoever reads all lines of a month; a page of them is read faster where it is mapped.
    """
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA mmap_size")
        size = (cursor.fetchone() or (0,))[0]
        cursor.execute("PRAGMA mmap_size=0")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA mmap_size={int(size)}")


@dataclass(frozen=True, slots=True)
class LineSums:
    """What the lines asked for come to, and the entries that sum them; None: none is theirs.

    `groups`: what they were grouped by, with amount and seconds of each.
    """

    amount: Decimal
    seconds: int
    entries: tuple[Effect, ...] | None
    groups: tuple[tuple[tuple[int | None, ...], Decimal, int], ...] = ()

    def checks(self, currency: str) -> list[Check]:
        """Lines against the entries that sum them. One's own jobs have no entry of their own."""
        if self.entries is None:
            return []
        owed = total(effect.amount for effect in self.entries)
        seconds = sum(effect.gpu_seconds for effect in self.entries)
        return [
            Check("equals ledger", self.amount, owed, currency),
            Check("GPU-seconds equal ledger", self.seconds, seconds, "GPU-s"),
        ]


def line_sums(
    books: Books,
    ask: Ask,
    scope: Scope,
    lines: QuerySet[UsageLine],
    accounts: list[str] | None,
    *keys: str,
) -> LineSums:
    """Sums of the lines, by keys that are numbers, and the entries behind them; one statement."""
    named = {f"key{place}_": F(key) for place, key in enumerate(keys)}
    sums = (
        lines.order_by()
        .annotate(kind_=_EMPTY, debit_=_EMPTY, credit_=_EMPTY, **named)
        .values("kind_", "debit_", "credit_", *named)
        .annotate(amount_=ExactSum("amount"), seconds_=Sum("gpu_seconds"))
        .values_list(*_SUMMED, *named)
    )
    # Entries are by account, SKU and rate: by nothing else can both be narrowed alike.
    is_finer = ask.attempt or ask.day or ask.flavour or ask.kind
    has_entries = not (is_finer or is_own(scope) or books.period is None)
    rows: Iterable[tuple[Any, ...]] = sums
    if has_entries:
        empty = {name: Cast(Value(None), BigIntegerField()) for name in named}
        entries_ = _entries(books, ask).annotate(**empty)
        rows = sums.union(entries_.values_list(*_SUMMED, *named), all=True)
    entries: list[LedgerEntry] = []
    groups: list[tuple[tuple[int | None, ...], Decimal, int]] = []
    for kind, debit, credit, owed, held, *of in rows:
        if kind:
            found = LedgerEntry(
                kind=kind, debit=debit, credit=credit, amount=owed, gpu_seconds=held
            )
            entries.append(found)
        else:
            groups.append((tuple(of), owed or ZERO, held or 0))
    shown = tuple(effects(entries, accounts)) if has_entries else None
    amount = total(owed for _, owed, _ in groups)
    return LineSums(amount, sum(held for _, _, held in groups), shown, tuple(groups))


def _entries(books: Books, ask: Ask) -> QuerySet[LedgerEntry]:
    found = LedgerEntry.objects.filter(period=books.period).exclude(lines=0).order_by()
    if ask.sku:
        found = found.filter(sku=ask.sku)
    if ask.rate.isdecimal():
        found = found.filter(rate_id=int(ask.rate))
    return found.annotate(
        kind_=F("kind"),
        debit_=F("debit"),
        credit_=F("credit"),
        amount_=F("amount"),
        seconds_=F("gpu_seconds"),
    )


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
    books = scope.books(ask.period)
    lines, accounts = lines_asked(books, ask, scope)
    sums = line_sums(books, ask, scope, lines, accounts)

    def rows(after: int) -> Iterator[Row]:
        for found in in_pages(lines, after, *_USAGE_FIELDS):
            pk, day_s, attempt, job, account, flavour, kind, rate, price, held, owed = found
            place = scope.place(account)
            day = datetime.fromtimestamp(day_s, UTC).date()
            head = (pk, day, attempt, job, place.team, place.project, flavour, kind, str(rate))
            yield Row(pk, (*head, price, held, owed, books.currency))

    return Sheet(
        rows,
        {"gpu_seconds": sums.seconds, "amount": sums.amount},
        sums.checks(books.currency),
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
        _TAKES,
        is_streamed=True,
        is_trail=True,
    ),
)
