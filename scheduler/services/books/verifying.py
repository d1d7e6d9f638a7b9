"""Whether the books still say what was written: chain, balance, lines, statements."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from scheduler.ledger.closing import BookKey, sealed_text
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.entries import GENESIS, Sealed, is_balanced, verify
from scheduler.ledger.exact import EXACT, gpu_hours
from scheduler.ledger.rating import ChargeKind
from scheduler.ledger.rating import UsageLine as Line
from scheduler.models import LedgerEntry, LedgerHead, Period, PeriodClose, UsageLine
from scheduler.services.books.reading import PAGE, chain_of, entries_named


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """How many entries hold, and what does not, the first break first."""

    entries: int
    lines: int
    breaks: tuple[str, ...]


def verify_ledger() -> LedgerReport:
    """Read everything and count it again; constant memory."""
    count, broken, unbalanced = check_chain()
    breaks = [*broken, *unbalanced]
    lines = 0
    for period in Period.objects.exclude(version=0):
        found, seen = check_lines(period)
        breaks += found
        lines += seen
        breaks += check_statements(period)
    return LedgerReport(count, lines, tuple(breaks))


def check_chain() -> tuple[int, list[str], list[str]]:
    """How many entries hold, where the chain is broken first, and which do not balance."""
    head = LedgerHead.objects.order_by("pk").first()
    balance = _Balance()
    count, _, broken = verify(
        balance.watch(chain_of(entries_named().iterator(PAGE))), head=head.hash if head else GENESIS
    )
    return count, [broken.words] if broken else [], balance.breaks


class _Balance:
    """Whether debits equal credits, in pieces, while a chain goes by."""

    def __init__(self) -> None:
        self.breaks: list[str] = []

    def watch(self, chain: Iterator[Sealed]) -> Iterator[Sealed]:
        for sealed in chain:
            if sealed.entry.amount < 0 or not is_balanced([sealed.entry]):
                self.breaks.append(f"entry {sealed.entry.number} does not balance")
            yield sealed


def check_lines(period: Period) -> tuple[list[str], int]:
    """The lines of a month against what their entries sealed."""
    digests: dict[BookKey, Any] = {}
    seen = 0
    for line in stored_lines(period):
        key = BookKey(line.account, f"{line.flavour}:{line.kind}", line.rate_id)
        digests.setdefault(key, hashlib.sha256()).update(sealed_text(line))
        seen += 1
    found = {key: digest.hexdigest() for key, digest in digests.items()}
    breaks = []
    for entry in LedgerEntry.objects.filter(period=period).exclude(lines=0):
        key = BookKey(entry.debit, entry.sku, str(entry.rate_id))
        if found.pop(key, "") != entry.lines_digest:
            breaks.append(f"the lines of entry {entry.number} are not those it was made of")
    breaks += [f"lines of {key.account}, {key.sku} belong to no entry" for key in sorted(found)]
    return breaks, seen


def stored_lines(period: Period) -> Iterator[Line]:
    """A month's lines in the order they were written, page by page."""
    last = 0
    while True:
        page = list(UsageLine.objects.filter(period=period, pk__gt=last).order_by("pk")[:PAGE])
        for row in page:
            yield Line(
                holder=row.holder,
                day_s=row.day_s,
                account=row.account,
                pool=str(row.pool_id),
                flavour=row.flavour,
                kind=ChargeKind(row.kind),
                rate_id=str(row.rate_id),
                unit_price=row.unit_price,
                currency=period.currency,
                gpu_seconds=row.gpu_seconds,
                gpu_hours=gpu_hours(row.gpu_seconds),
                amount=row.amount,
            )
        if len(page) < PAGE:
            return
        last = page[-1].pk


def check_statements(period: Period) -> list[str]:
    """Parts add up to statements, statements to the control total, rounding is less than a coin."""
    breaks = []
    for close in PeriodClose.objects.filter(period=period).prefetch_related("statements__parts"):
        statements = list(close.statements.all())
        if sum(s.units for s in statements) != close.control:
            breaks.append(f"the statements of {period.name} v{close.version} miss its total")
        for statement in statements:
            parts = sum(part.units for part in statement.parts.all())
            coin = from_minor(1, period.currency)
            exact: Decimal = EXACT.add(statement.exact, statement.rounding)
            if parts != statement.units or exact != from_minor(statement.units, period.currency):
                breaks.append(f"statement {statement.number} does not add up")
            elif abs(statement.rounding) >= coin:
                breaks.append(f"statement {statement.number} is rounded by a whole coin")
    return breaks
