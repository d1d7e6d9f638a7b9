"""What is wrong with an export: our own rules, read from the specification's text, one by one.

A rule looks at one row, or gathers and speaks at the end. `check` reads rows as a stream; its
memory grows with invoices and shared charges, not with rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from scheduler.ledger.currencies import EXPONENTS
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.focus.columns import Column, Form, columns_of

Cells = Mapping[str, str]
_DECIMAL = re.compile(r"-?\d+(\.\d+)?")
_INTEGER = re.compile(r"-?\d+")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NULL_WORDS = frozenset({"n/a", "na", "null", "none", "nil", "-", "not applicable", '""'})
_CATEGORIES = frozenset({"Usage", "Purchase", "Tax", "Credit", "Adjustment"})
_FREQUENCIES = frozenset({"One-Time", "Recurring", "Usage-Based"})


@dataclass(frozen=True, slots=True)
class Breach:
    """One thing wrong: the rule's name, the row (0: the header; -1: the whole file), the words."""

    rule: str
    row: int
    words: str


def header_breaches(header: Sequence[str], version: str) -> Iterator[Breach]:
    """Missing, unknown and misplaced columns."""
    known = {column.name: column for column in columns_of(version)}
    for column in known.values():
        if column.is_mandatory and column.name not in header:
            yield Breach("missing_column", 0, f"{column.name} is mandatory in {version}")
    custom_began = False
    for name in header:
        is_custom = name.startswith("x_")
        if not is_custom and name not in known:
            yield Breach("unknown_column", 0, f"{name} is no column of {version}; use x_{name}")
        if custom_began and not is_custom:
            yield Breach("custom_last", 0, f"{name} stands behind a column of our own")
        custom_began = custom_began or is_custom
    if len(set(header)) != len(header):
        yield Breach("twice", 0, "a column is there twice")


def _null(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        if not column.may_be_null and column.name in row and not row[column.name]:
            yield f"{column.name} must not be empty"


def _null_words(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    for name, cell in row.items():
        if cell and cell.strip().lower() in _NULL_WORDS:
            yield f"{name} says {cell!r}; leave the cell empty"


def _moments(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        cell = row.get(column.name, "")
        if cell and column.form is Form.MOMENT and not _MOMENT.fullmatch(cell):
            yield f"{column.name} is {cell!r}; write 2026-11-01T00:00:00Z"


def _numbers(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        cell = row.get(column.name, "")
        pattern = {Form.DECIMAL: _DECIMAL, Form.INTEGER: _INTEGER}.get(column.form)
        if cell and pattern is not None and not pattern.fullmatch(cell):
            yield f"{column.name} is {cell!r}; digits and a point only, no +, exponent or comma"


def _json(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        cell = row.get(column.name, "")
        is_flat = column.form is Form.JSON and column.name != "AllocatedMethodDetails"
        if cell and is_flat and (problem := _flat_problem(cell)):
            yield f"{column.name} {problem}"


def _flat_problem(cell: str) -> str:
    """What keeps a cell from being a flat JSON object; empty where nothing does."""
    doubled: list[str] = []

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in found]
        doubled.extend({name for name in names if names.count(name) > 1})
        return dict(found)

    try:
        value = json.loads(cell, object_pairs_hook=pairs)
    except ValueError:
        return "is no JSON"
    if not isinstance(value, dict):
        return "is no JSON object"
    if doubled:
        return f"has {doubled[0]} twice"
    if any(isinstance(inner, dict | list) for inner in value.values()):
        return "is not flat"
    return ""


def _decimal(row: Cells, name: str) -> Decimal | None:
    cell = row.get(name, "")
    return Decimal(cell) if _DECIMAL.fullmatch(cell) else None


def _product(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    if row.get("ChargeClass") == "Correction":
        return
    quantity = _decimal(row, "PricingQuantity")
    for price_name, cost_name in (
        ("ListUnitPrice", "ListCost"),
        ("ContractedUnitPrice", "ContractedCost"),
    ):
        price, cost = _decimal(row, price_name), _decimal(row, cost_name)
        if quantity is None or price is None or cost is None:
            continue
        if EXACT.multiply(quantity, price) != cost:
            yield f"{price_name} x PricingQuantity is not {cost_name}"


def _words(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    if row.get("ChargeCategory", "") not in _CATEGORIES:
        yield f"ChargeCategory is {row.get('ChargeCategory')!r}"
    if row.get("ChargeClass", "") not in ("", "Correction"):
        yield f"ChargeClass is {row.get('ChargeClass')!r}; Correction or empty"
    if row.get("ChargeFrequency", "") not in _FREQUENCIES | {""}:
        yield f"ChargeFrequency is {row.get('ChargeFrequency')!r}"


def _usage(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    if row.get("ChargeCategory") == "Usage" and row.get("ChargeClass") != "Correction":
        for name in ("PricingQuantity", "PricingUnit", "ConsumedQuantity", "ConsumedUnit"):
            if not row.get(name):
                yield f"{name} is empty in a row of usage"


def _adjustment(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    if row.get("ChargeCategory") in ("Adjustment", "Tax"):
        for name in ("PricingQuantity", "SkuId", "SkuPriceId", "PricingCategory"):
            if row.get(name):
                yield f"{name} must be empty in a row of {row['ChargeCategory']}"


def _units(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    pairs = (("PricingQuantity", "PricingUnit"), ("ConsumedQuantity", "ConsumedUnit"))
    for quantity, unit in pairs:
        if bool(row.get(quantity)) != bool(row.get(unit)):
            yield f"{quantity} and {unit} come together"


def _sub_account(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    if bool(row.get("SubAccountId")) != bool(row.get("SubAccountName")):
        yield "SubAccountId and SubAccountName come together"


def _currency(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    if row.get("BillingCurrency") and row["BillingCurrency"] not in EXPONENTS:
        yield f"BillingCurrency {row['BillingCurrency']!r} is not in ISO 4217"


def _order(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    for part in ("Billing", "Charge"):
        start, end = row.get(f"{part}PeriodStart", ""), row.get(f"{part}PeriodEnd", "")
        if start and end and _MOMENT.fullmatch(start) and _MOMENT.fullmatch(end) and start >= end:
            yield f"{part}Period ends before it starts"


def _inside(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    if row.get("ChargeClass") == "Correction" or row.get("ChargeCategory") != "Usage":
        return
    start, end = row.get("ChargePeriodStart", ""), row.get("ChargePeriodEnd", "")
    first, last = row.get("BillingPeriodStart", ""), row.get("BillingPeriodEnd", "")
    are_moments = all(_MOMENT.fullmatch(cell) for cell in (start, end, first, last))
    if are_moments and (start < first or end > last):
        yield "the charge period leaves the billing period and is no Correction"


def _allocation(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    """What is allocated says how, and of what; what is not says neither."""
    of_it = ("AllocatedMethodDetails", "AllocatedResourceId")
    if row.get("AllocatedMethodId"):
        for name in of_it:
            if not row.get(name):
                yield f"{name} is empty beside an AllocatedMethodId"
        return
    for name in (*of_it, "AllocatedResourceName", "AllocatedTags"):
        if row.get(name):
            yield f"{name} stands without an AllocatedMethodId"


def _ratio(cell: str) -> Decimal | None:
    """The ratio in a cell of AllocatedMethodDetails, all its elements together; None: not one."""
    try:
        found = json.loads(cell, parse_float=Decimal, parse_int=Decimal)
        elements = found["Elements"]
        parts = [element["AllocatedRatio"] for element in elements]
    except (ValueError, TypeError, KeyError):
        return None
    if not parts or not all(isinstance(part, Decimal) and 0 <= part <= 1 for part in parts):
        return None
    if any(bool(each.get("UsageUnit")) != ("UsageQuantity" in each) for each in elements):
        return None
    return sum(parts, ZERO)


def _allocation_details(row: Cells, columns: Sequence[Column]) -> Iterator[str]:
    cell = row.get("AllocatedMethodDetails", "")
    if cell and _ratio(cell) is None:
        yield "AllocatedMethodDetails wants Elements with an AllocatedRatio from 0 to 1 each"


class _Shared:
    """Ratios by shared charge: a resource on a day of one SKU."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, ...], Decimal] = {}

    def take(self, row: Cells) -> None:
        """Add a row's ratio to those of its charge."""
        ratio = _ratio(row.get("AllocatedMethodDetails", "") or "{}")
        if ratio is None:
            return
        names = ("AllocatedMethodId", "AllocatedResourceId", "SkuId", "ChargePeriodStart")
        key = tuple(row.get(name, "") for name in names)
        self.sums[key] = EXACT.add(self.sums.get(key, ZERO), ratio)

    def breaches(self) -> Iterator[Breach]:
        """Charges of which more or less than all is allocated."""
        for key, ratio in sorted(self.sums.items()):
            if ratio != 1:
                yield Breach("allocation_sum", -1, f"{key[1]} of {key[3]}: {ratio} is allocated")


Rule = Callable[[Cells, Sequence[Column]], Iterator[str]]
ROW_RULES: Mapping[str, Rule] = {
    "null": _null,
    "null_words": _null_words,
    "moment": _moments,
    "number": _numbers,
    "json": _json,
    "product": _product,
    "word": _words,
    "usage_quantity": _usage,
    "adjustment_price": _adjustment,
    "unit": _units,
    "sub_account": _sub_account,
    "currency": _currency,
    "order": _order,
    "inside": _inside,
    "allocation": _allocation,
    "allocation_details": _allocation_details,
}
HEADER_RULES = ("missing_column", "unknown_column", "custom_last", "twice")
FILE_RULES = ("invoice_total", "invoice_currency", "allocation_sum")
# Rules about columns that came with a version; in a file of an older one they find nothing.
SINCE = {"allocation": "1.3", "allocation_details": "1.3", "allocation_sum": "1.3"}


def check(
    header: Sequence[str],
    rows: Iterable[Cells],
    version: str,
    *,
    payable: Mapping[str, Decimal] | None = None,
) -> Iterator[Breach]:
    """All breaches of an export, header first. `payable`: what each invoice is really for."""
    columns = columns_of(version)
    yield from header_breaches(header, version)
    sums: dict[str, Decimal] = {}
    currencies: dict[str, set[str]] = {}
    shared = _Shared()
    for number, row in enumerate(rows, 1):
        for name, rule in ROW_RULES.items():
            for words in rule(row, columns):
                yield Breach(name, number, words)
        shared.take(row)
        invoice = row.get("InvoiceId", "")
        cost = _decimal(row, "BilledCost")
        if invoice and cost is not None:
            sums[invoice] = EXACT.add(sums.get(invoice, ZERO), cost)
            currencies.setdefault(invoice, set()).add(row.get("BillingCurrency", ""))
    yield from shared.breaches()
    for invoice in sorted(currencies):
        if len(currencies[invoice]) > 1:
            yield Breach("invoice_currency", -1, f"invoice {invoice} is in two currencies")
    for invoice, amount in sorted((payable or {}).items()):
        if sums.get(invoice, ZERO) != amount:
            found = sums.get(invoice, ZERO)
            yield Breach("invoice_total", -1, f"invoice {invoice}: rows {found}, payable {amount}")
