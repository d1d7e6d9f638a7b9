"""Whether the books still say what was written: chain, balance, lines, statements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Max

from accounts.models import AuditEvent
from accounts.services.audit import Subject, record
from scheduler.ledger.closing import BookKey, sealed_text
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.entries import GENESIS, Break, Sealed, is_balanced, verify
from scheduler.ledger.exact import EXACT, gpu_hours
from scheduler.ledger.rating import ChargeKind
from scheduler.ledger.rating import UsageLine as Line
from scheduler.models import LedgerEntry, LedgerHead, Period, PeriodClose, UsageLine
from scheduler.selectors.books.chain.chained import chain_of, entries_named
from scheduler.services.books.reading import PAGE
from scheduler.services.books.sealing import check_seals
from scheduler.states import moment_words

# Events that say where the chain ended when they were written; the audit seals them.
ANCHORS = ("period.close", "ledger.anchor")


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """How many entries hold, and what does not, the first break first."""

    entries: int
    lines: int
    breaks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChainReport:
    """How many entries hold, where the chain breaks first, which entries do not balance, and the
    first head noted outside the chain that is not its own; `anchors` counts those looked at."""

    entries: int
    broken: tuple[str, ...]
    unbalanced: tuple[str, ...]
    anchors: int
    unanchored: tuple[str, ...]


def verify_ledger() -> LedgerReport:
    """Read everything and count it again; constant memory."""
    chain = check_chain()
    breaks = [*chain.broken, *chain.unanchored, *chain.unbalanced]
    lines = 0
    for period in Period.objects.exclude(version=0):
        found, seen = check_lines(period)
        breaks += found
        lines += seen
        breaks += check_statements(period)
        breaks += check_seals(period)
    return LedgerReport(chain.entries, lines, tuple(breaks))


def check_chain() -> ChainReport:
    """Walk the chain once: its hashes, its balance, and the heads that were noted elsewhere.

    Others may post meanwhile: what was noted is read first, then the head, then the entries up to
    it, and none of them lacks what came before.
    """
    walk = _Walk(noted_heads())
    head = LedgerHead.objects.order_by("pk").first()
    until = entries_named().filter(number__lte=head.number if head else 0)
    count, _, broken = verify(
        walk.watch(chain_of(until.iterator(PAGE))), head=head.hash if head else GENESIS
    )
    if broken is None:
        broken = _behind_the_head()
    # What lies behind a break was not read: only a chain that holds lacks what was noted there.
    missing = [] if broken else walk.missing()
    return ChainReport(
        entries=count,
        broken=(broken.words,) if broken else (),
        unbalanced=tuple(walk.unbalanced),
        anchors=walk.anchors,
        unanchored=tuple([*walk.unanchored, *missing][:1]),
    )


def _behind_the_head() -> Break | None:
    """An entry that no head knows of. The last entry is read first: heads only go forward."""
    last = LedgerEntry.objects.aggregate(last=Max("number"))["last"] or 0
    head = LedgerHead.objects.order_by("pk").values_list("number", flat=True).first() or 0
    return Break(last, f"entry {last} lies behind the end of the chain") if last > head else None


def noted_heads() -> dict[int, list[tuple[str, str]]]:
    """By number of the entry: its hash as a close or the audit noted it, and who says so.

    Who rewrites the chain and its head has to rewrite these too, and the audit's are sealed.
    """
    found: dict[int, list[tuple[str, str]]] = {}
    closes = PeriodClose.objects.exclude(head_number=0).order_by("pk")
    for name, version, number, digest in closes.values_list(
        "period__name", "version", "head_number", "head_hash"
    ):
        found.setdefault(number, []).append((digest, f"the close of {name}, version {version}"))
    events = AuditEvent.objects.filter(action__in=ANCHORS).order_by("pk")
    for pk, at, after in events.values_list("pk", "at", "after").iterator(PAGE):
        head = json.loads(after or "{}")
        if head.get("head_number"):
            words = f"audit event {pk} of {moment_words(at)}"
            found.setdefault(head["head_number"], []).append((head["head_hash"], words))
    return found


def anchor_head(*, now: datetime) -> bool:
    """Note in the audit where the chain ends, if it has moved since that was last noted."""
    head = LedgerHead.objects.order_by("pk").first()
    if head is None or not head.number:
        return False
    noted = AuditEvent.objects.filter(action="ledger.anchor").order_by("-pk").first()
    after = {"head_number": head.number, "head_hash": head.hash}
    if noted is not None and json.loads(noted.after) == after:
        return False
    record(
        None, "ledger.anchor", Subject("ledger", label="The ledger's chain"), after=after, now=now
    )
    return True


class _Walk:
    """Looks at a chain while it goes by: do debits equal credits, are noted heads its own."""

    def __init__(self, noted: dict[int, list[tuple[str, str]]]) -> None:
        self.unbalanced: list[str] = []
        self.unanchored: list[str] = []
        self.anchors = sum(map(len, noted.values()))
        self._noted = noted

    def watch(self, chain: Iterator[Sealed]) -> Iterator[Sealed]:
        for sealed in chain:
            number = sealed.entry.number
            if sealed.entry.amount < 0 or not is_balanced([sealed.entry]):
                self.unbalanced.append(f"entry {number} does not balance")
            for digest, who in self._noted.pop(number, ()):
                if digest != sealed.hash:
                    self.unanchored.append(
                        f"entry {number} is not the one that {who} noted: the chain was rewritten"
                    )
            yield sealed

    def missing(self) -> list[str]:
        """What was noted and never came by; the first first."""
        return [
            f"entry {number}, noted by {who}, is not in the chain: it was rewritten"
            for number, heads in sorted(self._noted.items())
            for _, who in heads
        ]


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
