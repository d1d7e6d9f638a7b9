"""What is printed of a row adds up as it stands there, whatever the figures are."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.reports.books.cells import is_hours
from portal.reports.books.opened import check_words, decimals_of, foot_of, shown_rows
from portal.reports.books.pivots import Pivot, folded, pivoted
from portal.reports.books.printed import printed
from scheduler.ledger.exact import total
from scheduler.selectors.books.catalogue import REPORTS
from scheduler.selectors.books.frame import Ask, Check, Form, Row, sheet_of, totals_of

ASK = Ask("2026-11")
ADDING = {slug: report for slug, report in REPORTS.items() if report.adds}
HEADS = {Form.TEXT: "", Form.DAY: datetime(2026, 11, 3, tzinfo=UTC).date()}
LARGEST = (0, 1, 9, 200, 3_600, 90_000, 90_000_000)


def number(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("−", "-").removeprefix("+"))


def figure(column, chance: Random):
    size = chance.choice(LARGEST)
    if is_hours(column):
        return chance.randint(0, size)
    # With a sign, and with more digits than are printed.
    return Decimal(chance.randint(-size, size)) / chance.choice((1, 100, 10_000))


def row_of(report, chance: Random, key: int):
    named = {column.name: HEADS.get(column.form) for column in report.columns}
    for adds in report.adds:
        for name in (*adds.beside, *adds.parts):
            if named[name] is None:
                named[name] = figure(report.column(name), chance)
        parts = [named[name] for name in (*adds.beside, *adds.parts)]
        is_whole = is_hours(report.column(adds.whole))
        named[adds.whole] = sum(parts) if is_whole else total(parts)
    return Row(key, tuple(named.values()))


def wrong_sums(report, texts: dict[str, str]) -> list[str]:
    """Where what is printed does not add up."""
    return [
        adds.whole
        for adds in report.adds
        if adds.whole in texts
        and number(texts[adds.whole])
        != sum(number(texts[name]) for name in (*adds.beside, *adds.parts) if name in texts)
    ]


def printed_texts(report, rows):
    """Texts by column of each row, and of the foot."""
    totals = totals_of(report.columns, [row.cells for row in rows])
    decimals = decimals_of(report, report.columns, rows, totals)
    for cells in shown_rows(report, report.columns, ASK, rows, decimals):
        yield {cell.column.name: cell.text for cell in cells if cell.text != "—"}
    foot = foot_of(report, report.columns, totals, decimals)
    yield {column.name: text for column, text, _ in foot if text}


def test_capacity_summary_and_waste_say_what_adds_up():
    wanted = {"capacity", "period-summary", "use-and-waste", "quota-use", "rate-variance"}
    assert wanted <= set(ADDING)
    for report in ADDING.values():
        for adds in report.adds:
            columns = [report.column(name) for name in (adds.whole, *adds.beside, *adds.parts)]
            assert len({column.form for column in columns}) == 1


@pytest.mark.parametrize("slug", ADDING)
@given(st.integers(0, 2**32))
def test_printed_parts_come_to_the_printed_whole(slug, seed):
    report, chance = ADDING[slug], Random(seed)
    rows = [row_of(report, chance, key) for key in range(1, chance.randint(2, 6))]
    for texts in printed_texts(report, rows):
        assert not wrong_sums(report, texts), texts


@pytest.mark.parametrize("slug", ["capacity", "period-summary", "use-and-waste"])
@given(st.integers(0, 2**32))
def test_what_is_something_is_not_printed_as_nothing_nor_a_digit_off(slug, seed):
    report, chance = ADDING[slug], Random(seed)
    row = row_of(report, chance, 1)
    (texts, _) = printed_texts(report, [row])
    for column, cell in zip(report.columns, row.cells, strict=True):
        if column.name in texts and column.form in (Form.SECONDS, Form.AMOUNT):
            exact = Decimal(cell) / 3600 if is_hours(column) else Decimal(cell)
            places = len(texts[column.name].partition(".")[2])
            assert bool(number(texts[column.name])) is bool(cell), (texts, cell)
            assert abs(number(texts[column.name]) - exact) < Decimal(1).scaleb(-places)


@given(st.integers(0, 2**32))
def test_grouped_and_folded_rows_add_up_as_well(seed):
    chance = Random(seed)
    for slug, make in (
        ("capacity", lambda r, s: pivoted(r, s, ASK, Pivot(by="pool"))),
        ("quota-use", lambda r, s: folded(r, s, ASK)),
    ):
        report = ADDING[slug]
        cells = [row_of(report, chance, key).cells for key in range(4)]
        grouped, sheet = make(report, sheet_of(report.columns, cells, ASK, ()))
        for texts in printed_texts(grouped, list(sheet.rows(0))):
            assert texts and not wrong_sums(grouped, texts), texts


def test_a_row_of_capacity_has_one_number_of_digits():
    """On the 2nd of October it said 34.5 + 0.014 + 1,501.5 of 1,536.0."""
    report = ADDING["capacity"]
    cells = {"in_service_gpu_seconds": 5_529_600, "run_gpu_seconds": 124_160}
    cells |= {"overhead_gpu_seconds": 50, "free_gpu_seconds": 5_405_390}
    row = Row(1, tuple(cells.get(column.name, 0) for column in report.columns))
    (texts, _) = printed_texts(report, [row])
    found = [texts[name] for name in cells]
    assert found == ["1,536.000", "34.489", "0.014", "1,501.497"]


def test_a_sum_that_its_parts_do_not_come_to_is_seen():
    report = ADDING["period-summary"]
    cells = {"total": Decimal("2.00"), "guaranteed_amount": Decimal("1.50")}
    assert printed(report, cells, {}) == {}
    assert printed(report, cells | {"rounding": Decimal("0.50")}, {})["total"] == "2.00"


def test_exact_amounts_have_all_digits_that_the_ledger_has():
    report = REPORTS["team-statement"]
    amounts = ("0.175833334000000", "2029.9621944451", "12")
    rows = [
        Row(key, tuple(Decimal(text) if c.name == "amount" else None for c in report.columns))
        for key, text in enumerate(amounts, 1)
    ]
    *texts, foot = (found["amount"] for found in printed_texts(report, rows))
    assert texts == ["0.1758333340", "2,029.9621944451", "12.0000000000"]
    assert foot == "2,042.1380277791" and number(foot) == sum(map(number, texts))
    check = Check("lines, exact", Decimal(foot.replace(",", "")), number(foot), "EUR", True)
    assert check_words(check) == "lines, exact: 2,042.1380277791 EUR"
