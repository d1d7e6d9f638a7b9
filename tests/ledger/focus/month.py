"""The golden month as an export; `python -m tests.ledger.focus.month` writes the bad files anew.

Each bad file is the good one with a single thing wrong, named after the rule that must find it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from scheduler.ledger.bills import draw_bills, rounding_entries
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.entries import RECOVERY, ROUNDING, EntryKind, seal, team_of
from scheduler.ledger.focus.facts import Booked, Issuer, Owner
from scheduler.ledger.focus.rows import (
    allocations,
    cells,
    entry_row,
    header,
    is_share,
    line_row,
    origin_of,
)
from tests.ledger.golden import FEBRUARY, golden_tallies
from tests.ledger.test_golden_month import WHERE, first_close

BAD = Path(__file__).parent / "bad"
ISSUER = Issuer(FEBRUARY, "EUR", "org", "Example Lab", "yard", "closed", "1.2")
Table = list[list[str]]


def good(version: str = "1.2") -> tuple[Table, dict[str, Decimal]]:
    """Header and rows of the closed month, and what each invoice is for."""
    entries = first_close()
    _, bills = draw_bills(entries, "EUR")
    chain = list(seal([*entries, *rounding_entries(bills, "EUR", WHERE)]))
    invoices = {bill.account: f"2026-02/{number}" for number, bill in enumerate(bills, 1)}
    by_key = {(s.entry.debit, s.entry.sku, s.entry.rate_id): s for s in chain}
    _, _, lines = golden_tallies()
    names = header(version)
    table = [names]
    shares = [(origin_of(x), x.account, x.gpu_seconds) for x in lines if is_share(x.kind)]
    parts = allocations(shares, {}, {})
    for line in lines:
        sealed = by_key[line.account, f"{line.flavour}:{line.kind}", line.rate_id]
        team, _, project = line.account.partition("/")
        owner = Owner(team, team.title(), project, project.title(), "17", "train", 1, "ab12")
        booked = Booked(invoices[team_of(line.account)], sealed.entry.number, sealed.hash)
        part = parts.get((origin_of(line), line.account))
        table.append(cells(line_row(line, owner, booked, ISSUER, part), names))
    for sealed in chain:
        if sealed.entry.kind in (EntryKind.ADJUSTMENT, EntryKind.ROUNDING):
            sides = (sealed.entry.debit, sealed.entry.credit)
            side = next(a for a in sides if a not in (RECOVERY, ROUNDING))
            booked = Booked(invoices[team_of(side)], sealed.entry.number, sealed.hash)
            table.append(cells(entry_row(sealed.entry, Owner(), booked, ISSUER), names))
    payable = {invoices[bill.account]: from_minor(bill.units, "EUR") for bill in bills}
    return table, payable


def written(table: Table) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(table)
    return text.getvalue()


def _set(column: str, value: str, row: int = 1) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        table[row][table[0].index(column)] = value

    return change


def _drop(column: str) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        place = table[0].index(column)
        for row in table:
            del row[place]

    return change


def _add(name: str, place: int, value: str = "") -> Callable[[Table], None]:
    def change(table: Table) -> None:
        for number, row in enumerate(table):
            row.insert(place, name if number == 0 else value)

    return change


def _both(one: Callable[[Table], None], other: Callable[[Table], None]) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        one(table)
        other(table)

    return change


SPOILS: dict[str, Callable[[Table], None]] = {
    "missing_column": _drop("InvoiceIssuerName"),
    "unknown_column": _add("GpuFlavor", 0, "h100"),
    "custom_last": _add("x_First", 0),
    "twice": _add("Tags", 5),
    "null": _set("ServiceName", ""),
    "null_words": _set("AvailabilityZone", "N/A"),
    "moment": _set("ChargePeriodStart", "2026-02-01 00:00:00"),
    "number": _set("ListUnitPrice", "+4"),
    "json": _set("Tags", '{"a":"1","a":"2"}'),
    "product": _set("ListUnitPrice", "4.000001"),
    "word": _set("ChargeFrequency", "Sometimes"),
    "usage_quantity": _both(_set("ConsumedQuantity", ""), _set("ConsumedUnit", "")),
    "adjustment_price": _set("SkuId", "h100:run", row=-1),
    "unit": _set("PricingUnit", "GPU-Hours", row=-1),
    "sub_account": _set("SubAccountName", ""),
    "currency": _set("BillingCurrency", "EURO"),
    "order": _set("BillingPeriodEnd", "2026-01-01T00:00:00Z", row=-1),
    "inside": _set("ChargePeriodEnd", "2026-03-02T00:00:00Z"),
    "invoice_total": _set("BilledCost", "0.01", row=-1),
    "invoice_currency": _set("BillingCurrency", "USD"),
}


def _share(table: Table) -> int:
    """The first row that is a part of something shared."""
    place = table[0].index("AllocatedMethodId")
    return next(number for number, row in enumerate(table) if number and row[place])


def _set_share(column: str, value: str) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        table[_share(table)][table[0].index(column)] = value

    return change


def _more_than_all(table: Table) -> None:
    row, place = _share(table), table[0].index("AllocatedMethodDetails")
    details = re.sub(r'("AllocatedRatio":)[0-9.]+', r"\g<1>1.000000000000", table[row][place])
    assert details != table[row][place]
    table[row][place] = details


# What version 1.3 brought: rules of its own, and old rules on its columns.
SPOILS_1_3: dict[str, Callable[[Table], None]] = {
    **SPOILS,
    "missing_column": _drop("HostProviderName"),
    "null": _set("ServiceProviderName", ""),
    "json": _set_share("AllocatedTags", '{"a":{"b":1}}'),
    "allocation": _set("AllocatedResourceName", "free"),
    "allocation_details": _set_share("AllocatedMethodDetails", '{"Elements":[]}'),
    "allocation_sum": _more_than_all,
}
SPOILT = {"1.2": SPOILS, "1.3": SPOILS_1_3}


def main() -> None:
    for version, spoils in SPOILT.items():
        (BAD / version).mkdir(parents=True, exist_ok=True)
        for rule, spoil in spoils.items():
            table, _ = good(version)
            spoil(table)
            path = BAD / version / f"{rule}.csv"
            path.write_text(written(table), encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
