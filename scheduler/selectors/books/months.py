"""Months of the books as reports need them, and what their entries say about an account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

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
        """The SKU's kind for use, else the kind of entry; corrections are corrections."""
        if self.entry.kind == "correction":
            return "correction"
        return self.entry.sku.rpartition(":")[2] or self.entry.kind


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
