"""What a close seals of a month's books, and whether they still say the same.

Totals by account and SKU, how many entries, and the SHA-256 of the statements as CSV: by keys of
accounts and entries, not by names, which change. Who rewrites entries or statements together with
all that ties them has to rewrite this, too; and whoever compares is told where they differ first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.db.models import F

from accounts.models import AuditEvent
from scheduler.ledger.bills import Bill
from scheduler.ledger.entries import RECOVERY, ROUNDING
from scheduler.ledger.exact import EXACT, ZERO, plain
from scheduler.models import LedgerEntry, Period, PeriodClose, StatementLine

_PAGE = 5_000
_SEALED = frozenset({"entries", "totals", "statements"})
# Of a row of totals: account, SKU, seconds, amount.
_COLUMNS = 4
# A statement's line: number, account, exact sum, smallest coins, entry, its hash, its coins.
Row = tuple[int, str, Decimal, int, int, str, int]


def seal_of(period: Period, bills: Sequence[Bill], first_number: int) -> dict[str, Any]:
    """Of a month whose entries are posted and whose statements will be numbered from here on."""
    count, totals = _totals(period, None)
    hashes = dict(LedgerEntry.objects.filter(period=period).values_list("number", "hash"))
    rows = (
        (number, bill.account, bill.exact, bill.units, entry, hashes[entry], units)
        for number, bill in enumerate(bills, first_number)
        for entry, units in sorted(bill.parts.items())
    )
    return {"entries": count, "totals": totals, "statements": _digest(rows)}


def digest_of(sealed: Mapping[str, Any]) -> str:
    """SHA-256 of a seal, as the audit notes it with the close."""
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def check_seals(period: Period) -> list[str]:
    """Of each close of a month, what is wrong with its seal, or the first figure that is not the
    one it sealed. Only closes of before there were seals have none."""
    noted = _noted(period)
    first = PeriodClose.objects.filter(sealed__isnull=False).order_by("pk").first()
    found = []
    for close in PeriodClose.objects.filter(period=period).order_by("version"):
        who = f"the close of {period.name}, version {close.version},"
        is_due = close.version in noted or (first is not None and first.pk < close.pk)
        if close.sealed is None:
            words = "has lost its seal" if is_due else ""
        elif not _is_seal(close.sealed):
            words = "has a seal that says too little"
        elif digest_of(close.sealed) != noted.get(close.version, digest_of(close.sealed)):
            words = "has another seal than the audit noted"
        else:
            words = _differs(period, close)
        if words:
            found.append(f"{who} {words}")
    return found


def closes_before_seals() -> int:
    """How many closes have none because none that has one was made earlier."""
    first = PeriodClose.objects.filter(sealed__isnull=False).order_by("pk").first()
    old = PeriodClose.objects.filter(sealed__isnull=True)
    return (old if first is None else old.filter(pk__lt=first.pk)).count()


def _is_seal(sealed: Any) -> bool:
    """Whether it has the form that `seal_of` gives."""
    if not isinstance(sealed, dict) or not set(sealed) >= _SEALED:
        return False
    totals = sealed["totals"]
    return isinstance(totals, list) and all(
        isinstance(row, list) and len(row) == _COLUMNS for row in totals
    )


def _noted(period: Period) -> dict[int, str]:
    """By version of a close the digest of its seal, as the audit has it."""
    events = AuditEvent.objects.filter(
        action="period.close", subject_kind="period", subject_id=str(period.pk)
    )
    told = [json.loads(after or "{}") for after in events.values_list("after", flat=True)]
    return {one["version"]: one["seal"] for one in told if "seal" in one}


def _differs(period: Period, close: PeriodClose) -> str:
    sealed: dict[str, Any] = close.sealed or {}
    count, totals = _totals(period, close.head_number)
    if count != sealed["entries"]:
        return f"sealed {sealed['entries']} entries, there are {count}"
    before = {(account, sku): figures for account, sku, *figures in sealed["totals"]}
    after = {(account, sku): figures for account, sku, *figures in totals}
    for key in sorted({*before, *after}):
        was, found = before.get(key, [0, "0"]), after.get(key, [0, "0"])
        if was != found:
            account, sku = key
            return (
                f"sealed {was[1]} in {was[0]} s of {account}, {sku}; "
                f"the entries say {found[1]} in {found[0]} s"
            )
    if _digest(_stored(close)) != sealed["statements"]:
        return "sealed other statements than there are"
    return ""


def _totals(period: Period, head_number: int | None) -> tuple[int, list[list[Any]]]:
    """How many entries, and [account, SKU or kind, seconds, amount] in order."""
    entries = LedgerEntry.objects.filter(period=period).order_by()
    if head_number is not None:
        entries = entries.filter(number__lte=head_number)
    count, sums = 0, dict[tuple[str, str], tuple[int, Decimal]]()
    fields = ("debit", "credit", "sku", "kind", "gpu_seconds", "amount")
    for debit, credit, sku, kind, seconds, amount in entries.values_list(*fields).iterator(_PAGE):
        is_owed = debit not in (RECOVERY, ROUNDING)
        key = (debit if is_owed else credit, sku or kind)
        sign, change = (1, amount) if is_owed else (-1, EXACT.minus(amount))
        had = sums.get(key, (0, ZERO))
        sums[key] = (had[0] + sign * seconds, EXACT.add(had[1], change))
        count += 1
    return count, [
        [*key, seconds, plain(amount)] for key, (seconds, amount) in sorted(sums.items())
    ]


def _stored(close: PeriodClose) -> Iterator[Row]:
    parts = StatementLine.objects.filter(statement__close=close).annotate(
        number=F("statement__number"), entry_number=F("entry__number")
    )
    yield from (
        parts.order_by("number", "entry_number")
        .values_list(
            "number",
            "statement__account",
            "statement__exact",
            "statement__units",
            "entry_number",
            "entry__hash",
            "units",
        )
        .iterator(_PAGE)
    )


def _digest(rows: Iterable[Row]) -> str:
    """SHA-256 of the statements as CSV without a header; no cell has a comma."""
    digest = hashlib.sha256()
    for number, account, exact, units, entry, found, part in rows:
        cells = (number, account, plain(exact), units, entry, found, part)
        digest.update(",".join(map(str, cells)).encode() + b"\n")
    return digest.hexdigest()
