"""The lines behind every amount, narrowed to what a viewer may see and tied to their entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import BigIntegerField, CharField, F, Q, QuerySet, Sum, Value

from accounts.errors import Invalid
from accounts.statements import Null
from scheduler.ledger.exact import EXACT, ZERO, total
from scheduler.models import LedgerEntry, UsageLine
from scheduler.models.exact import ExactSum
from scheduler.selectors.books.frame import (
    Ask,
    Check,
    Who,
)
from scheduler.selectors.books.months import Books, Effect, effects
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.spans import SPAN, span_of

PAGE = 5_000
TAKES = SPAN | {"team", "project", "sku", "rate", "attempt"}
# A number with more of them may be larger than the databases take.
_DIGITS = 18
# A bare value, not a cast one: by those nothing is grouped, so nothing is sorted.
_EMPTY = Value("", output_field=CharField())
_SUMMED = ("kind_", "debit_", "credit_", "amount_", "seconds_")
ANYBODY = Who.BOOKS | Who.TEAMS | Who.OWN


def lines_asked(
    books: Books, ask: Ask, scope: Scope
) -> tuple[QuerySet[UsageLine], list[str] | None]:
    """The lines of the month or the days the viewer may see, narrowed; and the accounts, None for
    all.

    Who keeps no books and leads no team gets the lines of own jobs.
    """
    lines, accounts = _lines_of_months(books, ask, scope)
    return lines.filter(_days(books, ask)) if ask.has_days else lines, accounts


def _days(books: Books, ask: Ask) -> Q:
    span = span_of(books, ask)
    return Q(day_s__gte=span.start_s, day_s__lt=span.end_s)


def _months(books: Books, ask: Ask) -> Q:
    """The months that the days asked for lie in, of those that were closed."""
    if ask.has_days:
        return Q(period__name__in=span_of(books, ask).months, period__version__gt=0)
    return Q(period=books.rated)


def _lines_of_months(
    books: Books, ask: Ask, scope: Scope
) -> tuple[QuerySet[UsageLine], list[str] | None]:
    """As `lines_asked`, of all the days of the months."""
    lines, accounts = UsageLine.objects.filter(_months(books, ask)), None
    if is_own(scope):
        lines = lines.filter(attempt__job__owner=scope.viewer)
        named = scope.own_accounts(ask.team, ask.project)
        lines = lines if named is None else lines.filter(account__in=named)
    else:
        accounts = scope.accounts(ask.team, ask.project)
        if accounts is not None:
            lines = lines.filter(account__in=accounts)
    if ask.sku:
        flavour, _, kind = ask.sku.rpartition(":")
        lines = lines.filter(flavour=flavour, kind=kind)
    if ask.rate:
        lines = lines.filter(rate_id=_rate(ask))
    exact = {"attempt_id": ask.attempt, "flavour": ask.flavour, "kind": ask.kind}
    lines = lines.filter(**{name: value for name, value in exact.items() if value})
    if ask.day:
        lines = lines.filter(day_s=day_asked(books, ask))
    return lines, accounts


def _rate(ask: Ask) -> int:
    """The number of the rate asked for; 0, which is none's, for what no rate can have."""
    is_number = ask.rate.isascii() and ask.rate.isdecimal() and len(ask.rate) <= _DIGITS
    return int(ask.rate) if is_number else 0


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

    `groups`: what they were grouped by, with amount and seconds of each. `other_days`: what the
    other days of the same months come to, where only some are asked for.
    """

    amount: Decimal
    seconds: int
    entries: tuple[Effect, ...] | None
    groups: tuple[tuple[tuple[int | None, ...], Decimal, int], ...] = ()
    other_days: tuple[Decimal, int] | None = None

    def checks(self, currency: str) -> list[Check]:
        """Lines against the entries that sum them. One's own jobs have no entry of their own."""
        if self.entries is None:
            return []
        owed = total(effect.amount for effect in self.entries)
        seconds = sum(effect.gpu_seconds for effect in self.entries)
        amount, held, which = self.amount, self.seconds, ""
        if self.other_days is not None:
            # The ledger knows months: with the days that are left out it has to come out even.
            amount, held = EXACT.add(amount, self.other_days[0]), held + self.other_days[1]
            which = "with the other days of these months "
        return [
            Check(f"{which}equals ledger", amount, owed, currency),
            Check(f"{which}GPU-seconds equal ledger", held, seconds, "GPU-s"),
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
    has_entries = not (is_finer or is_own(scope) or (books.period is None and not ask.has_days))
    other_days = (ZERO, 0) if has_entries and ask.has_days else None
    rows: Iterable[tuple[Any, ...]] = sums
    if has_entries:
        empty = {name: Null(BigIntegerField()) for name in named}
        more = [_entries(books, ask).annotate(**empty)]
        more += [_other_days(books, ask, scope).annotate(**empty)] if ask.has_days else []
        rows = sums.union(*(each.values_list(*_SUMMED, *named) for each in more), all=True)
    entries: list[LedgerEntry] = []
    groups: list[tuple[tuple[int | None, ...], Decimal, int]] = []
    for kind, debit, credit, owed, held, *of in rows:
        if kind:
            found = LedgerEntry(
                kind=kind, debit=debit, credit=credit, amount=owed, gpu_seconds=held
            )
            entries.append(found)
        elif debit:
            other_days = (owed or ZERO, held or 0)
        else:
            groups.append((tuple(of), owed or ZERO, held or 0))
    shown = tuple(effects(entries, accounts)) if has_entries else None
    amount = total(owed for _, owed, _ in groups)
    return LineSums(amount, sum(held for _, _, held in groups), shown, tuple(groups), other_days)


def _other_days(books: Books, ask: Ask, scope: Scope) -> QuerySet[Any]:
    """One row of the lines that the days asked for leave out of their months."""
    lines, _ = _lines_of_months(books, ask, scope)
    other = Value("other days", output_field=CharField())
    return (
        lines.exclude(_days(books, ask))
        .order_by()
        .annotate(kind_=_EMPTY, debit_=other, credit_=_EMPTY)
        .values("kind_", "debit_", "credit_")
        .annotate(amount_=ExactSum("amount"), seconds_=Sum("gpu_seconds"))
    )


def _entries(books: Books, ask: Ask) -> QuerySet[Any]:
    found = LedgerEntry.objects.filter(_months(books, ask)).exclude(lines=0).order_by()
    if ask.sku:
        found = found.filter(sku=ask.sku)
    if ask.rate:
        found = found.filter(rate_id=_rate(ask))
    return found.annotate(
        kind_=F("kind"),
        debit_=F("debit"),
        credit_=F("credit"),
        amount_=F("amount"),
        seconds_=F("gpu_seconds"),
    )
