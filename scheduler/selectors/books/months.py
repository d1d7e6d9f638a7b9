"""Months of the books as reports need them, and what their entries say about an account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import F, Q

from accounts.errors import NotFound
from scheduler.conf import load_conf
from scheduler.ledger.entries import INTERNAL, RECOVERY, ROUNDING
from scheduler.ledger.exact import EXACT
from scheduler.ledger.periods import Month
from scheduler.models import LedgerEntry, Period, PeriodClose


@dataclass(frozen=True, slots=True)
class Books:
    """A month: its row and its latest close, where there are any yet."""

    month: Month
    period: Period | None
    close: PeriodClose | None
    currency: str

    @property
    def version(self) -> int:
        """How often it was closed."""
        return self.close.version if self.close else 0

    @property
    def rated(self) -> int:
        """The key of the month whose lines are final, 0 for none: what a close writes that is under
        way, or that something kept, is nobody's to read."""
        return self.period.pk if self.period and self.version else 0

    @property
    def state(self) -> str:
        """Open, soft closed, closed or reopened."""
        return self.period.state if self.period else "open"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader has to know before the figures."""
        if self.close is None:
            return (
                f"{self.month} is not closed: its usage is rated when it is. "
                "What was used so far stands under Costs.",
            )
        return ()


@dataclass(frozen=True, slots=True)
class Effect:
    """What an entry means for the account it is about: owed (positive) or given back."""

    entry: LedgerEntry
    account: str
    amount: Decimal
    gpu_seconds: int

    @property
    def kind(self) -> str:
        """The SKU's kind for use, else the kind of entry: what is corrected or given back has
        an SKU, too, perhaps of another month."""
        if self.entry.kind in ("correction", "credit"):
            return self.entry.kind
        return self.entry.sku.rpartition(":")[2] or self.entry.kind


# Of a close, what reports need: not the weights of every share, which may be long.
_PERIOD = tuple(field.attname for field in Period._meta.concrete_fields)
_CLOSE = (
    "id",
    "period_id",
    "version",
    "closed_at",
    "control",
    "seconds",
    "recovery",
    "head_number",
    "head_hash",
)
_NEWEST = 24


@dataclass(frozen=True, slots=True)
class Shelf:
    """The newest months with their latest closes, by name, the newest first; one statement."""

    found: Mapping[str, Books]

    @property
    def last_closed(self) -> str:
        """The latest month with final figures; empty before the first close."""
        return next((name for name, books in self.found.items() if books.version), "")

    def names(self, now_s: int) -> list[str]:
        """The months a report can be of, the one of now included."""
        current = str(Month.of(now_s))
        return [*([] if current in self.found else [current]), *self.found]

    def books(self, period: str) -> Books:
        """A month's books; asks for what is older than the shelf. Raises NotFound for no month."""
        return self.found[period] if period in self.found else books_of(period)


def shelf() -> Shelf:
    """Read once for a page or an answer."""
    rows = Period.objects.filter(Q(closes__isnull=True) | Q(closes__version=F("version")))
    fields = (*_PERIOD, *(f"closes__{name}" for name in _CLOSE))
    found: dict[str, Books] = {}
    for row in rows.order_by("-name").values_list(*fields)[:_NEWEST]:
        period = Period.from_db(None, _PERIOD, row[: len(_PERIOD)])
        of_close = row[len(_PERIOD) :]
        close = PeriodClose.from_db(None, _CLOSE, of_close) if of_close[0] else None
        if close is not None:
            close.period = period
        found[period.name] = Books(Month.parse(period.name), period, close, period.currency)
    return Shelf(found)


def books_of(period: str) -> Books:
    """The month's books; two statements. Raises NotFound for what is no month."""
    try:
        month = Month.parse(period)
    except ValueError as error:
        raise NotFound(str(error)) from None
    row = Period.objects.filter(name=str(month)).first()
    close = None
    if row is not None and row.version:
        close = PeriodClose.objects.filter(period=row).order_by("-version").first()
    return Books(month, row, close, row.currency if row else load_conf().currency)


def effect_of(entry: LedgerEntry) -> Effect:
    """The entry from the side of the account that is not the cluster's own."""
    if entry.debit in (RECOVERY, ROUNDING):
        return Effect(entry, entry.credit, EXACT.minus(entry.amount), -entry.gpu_seconds)
    return Effect(entry, entry.debit, entry.amount, entry.gpu_seconds)


def effects(entries: Iterable[LedgerEntry], accounts: list[str] | None) -> Iterator[Effect]:
    """Effects on these accounts, in the order of the entries; what no team owes is left out."""
    wanted = None if accounts is None else set(accounts)
    for entry in entries:
        if entry.kind in INTERNAL:
            continue
        found = effect_of(entry)
        if wanted is None or found.account in wanted:
            yield found
