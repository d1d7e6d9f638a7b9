"""F16: the golden month's export keeps every rule; each rule finds the one file that breaks it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from decimal import Decimal

import pytest

from scheduler.ledger.entries import RECOVERY, Entry, EntryKind
from scheduler.ledger.focus.columns import VERSIONS, columns_of
from scheduler.ledger.focus.facts import Booked, Owner
from scheduler.ledger.focus.rows import cells, entry_row, header
from scheduler.ledger.focus.rules import FILE_RULES, HEADER_RULES, ROW_RULES, SINCE, check
from tests.ledger.focus.month import BAD, ISSUER, SPOILT, Table, good

RULES = (*HEADER_RULES, *ROW_RULES, *FILE_RULES)


def as_rows(table: Table) -> Iterator[dict[str, str]]:
    return (dict(zip(table[0], row, strict=True)) for row in table[1:])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_golden_month_keeps_every_rule(version):
    table, payable = good(version)
    assert list(check(table[0], as_rows(table), version, payable=payable)) == []
    assert len(table) > 60


def rules_of(version: str) -> list[str]:
    return [rule for rule in RULES if version >= SINCE.get(rule, "")]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_rule_has_its_bad_file(version):
    there = {path.stem for path in (BAD / version).glob("*.csv")}
    assert set(rules_of(version)) == set(SPOILT[version]) == there


@pytest.mark.parametrize(("version", "rule"), [(v, r) for v in VERSIONS for r in rules_of(v)])
def test_a_bad_file_is_found_by_its_rule_alone(version, rule):
    _, payable = good()
    with (BAD / version / f"{rule}.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    found = list(check(table[0], as_rows(table), version, payable=payable))
    assert {breach.rule for breach in found} - _FOLLOWS.get(rule, set()) == {rule}


def test_shares_say_how_much_of_what_they_are():
    table, _ = good("1.3")
    shares = [row for row in as_rows(table) if row["AllocatedMethodId"]]
    assert shares and {row["x_ChargeKind"] for row in shares} <= {"idle-share", "platform-share"}
    whole: dict[tuple[str, str], Decimal] = {}
    for row in shares:
        (element,) = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)["Elements"]
        assert element["UsageQuantity"] == int(row["x_GpuSeconds"])
        key = (row["AllocatedResourceId"], row["ChargePeriodStart"])
        whole[key] = whole.get(key, Decimal(0)) + element["AllocatedRatio"]
    assert set(whole.values()) == {Decimal(1)}


# A cell that cannot be read as a number cannot be multiplied or added either.
_FOLLOWS = {
    "unit": {"adjustment_price"},
    "currency": {"invoice_currency"},
    "allocation_details": {"allocation_sum"},
}


def test_invoices_are_what_the_statements_say():
    table, payable = good()
    assert sum(payable.values()) == Decimal("250.63")
    place, cost = table[0].index("InvoiceId"), table[0].index("BilledCost")
    for invoice, amount in payable.items():
        assert sum(Decimal(row[cost]) for row in table[1:] if row[place] == invoice) == amount


def test_versions_differ_by_their_columns_only():
    older, newer = (set(header(version)) for version in VERSIONS)
    assert newer - older == {
        "AllocatedMethodDetails",
        "AllocatedMethodId",
        "AllocatedResourceId",
        "AllocatedResourceName",
        "AllocatedTags",
        "HostProviderName",
        "ServiceProviderName",
    }
    assert older <= newer
    mandatory = [column for column in columns_of("1.2") if column.is_mandatory]
    assert len(mandatory) == 21
    with pytest.raises(ValueError, match=r"'1.1'"):
        columns_of("1.1")


def test_a_correction_says_what_it_corrects():
    entry = Entry(
        batch="correct",
        kind=EntryKind.CORRECTION,
        period="2026-02",
        service_period="2026-01",
        debit=RECOVERY,
        credit="team:1/project:1",
        amount=Decimal("15"),
        currency="EUR",
        sku="h100:run-guaranteed",
        rate_id="7",
        unit_price=Decimal(5),
        gpu_seconds=10_800,
    )
    row = entry_row(entry, Owner(), Booked(), ISSUER)
    assert (row["BilledCost"], row["ChargeClass"], row["PricingQuantity"]) == (
        "-15.0",
        "Correction",
        "-3.0",
    )
    assert row["ChargePeriodStart"] == "2026-01-01T00:00:00Z"
    assert row["BillingPeriodStart"] == "2026-02-01T00:00:00Z"
    names = header("1.3")
    table = [names, cells(row, names)]
    assert list(check(names, as_rows(table), "1.3")) == []
