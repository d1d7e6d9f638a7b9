"""The golden month, worked out by hand: page, API, CSV, XLSX, Parquet and FOCUS show its figures.

One fixture for all: `tests/ledger/golden.py` says what must come out, `golden_rows.py` puts the
story into the database, and the product closes it.
"""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal
from html import unescape

import pyarrow.parquet as pq
import pytest

from accounts.services import appoint_bookkeeper
from scheduler.ledger.entries import PLATFORM
from scheduler.ledger.exact import gpu_hours
from scheduler.models import Budget, LedgerEntry, Statement
from scheduler.money import from_steps
from scheduler.selectors.books.catalogue import REPORTS, open_report
from scheduler.selectors.books.focus import focus_rows
from scheduler.selectors.books.frame import Ask
from scheduler.selectors.books.sums.ratios import sum_under
from scheduler.services import books
from scheduler.services.sharing.budgets import set_budget
from tests.ledger.golden import (
    BOOKED,
    BUDGETS,
    CAPACITY,
    CENTS,
    EXACT_SUMS,
    IN_SERVICE,
    PRICES,
    SPEECH,
    VISION,
    VISION_BY_THE_21ST,
    at,
)
from tests.ledger.golden_rows import MONTH, SLUGS, close_golden, fill_golden, lose_a3, moment
from tests.reports.workbook import cells_of

pytestmark = pytest.mark.django_db
PRICE = {price.id: price.per_gpu_hour for price in PRICES}
WAYS = ("page", "api", "csv", "xlsx", "parquet")
# By team, SKU and price: seconds and exact amount, as `golden.py` has them.
LINES = {
    (SLUGS[account], sku, PRICE[rate]): (seconds, Decimal(amount))
    for (account, sku, rate), (amount, seconds) in BOOKED.items()
}


@pytest.fixture
def clerk(root, finance):
    """A bookkeeper, without the other tests' cluster."""
    appoint_bookkeeper(actor=root, user=finance)
    return finance


@pytest.fixture
def golden(request, root, clerk, project, other_project):
    if "budgets" not in request.fixturenames:
        fill_golden(root, clerk, {VISION: project, SPEECH: other_project})
    else:
        request.getfixturevalue("budgets")
    return close_golden(root)


@pytest.fixture
def read(client, root, golden):
    """`read(way, slug)`: the rows of a report as exact texts by column, whichever way they come."""
    client.force_login(root)

    def rows(way: str, slug: str, period: str = MONTH) -> list[dict[str, str]]:
        path, query = f"/finance/reports/{slug}/", {"period": period}
        if way == "api":
            found = client.get(f"/api/v1{path}", {**query, "limit": 1000}).json()
            texts = [["" if cell is None else str(cell) for cell in row] for row in found["rows"]]
            return [dict(zip(found["columns"], row, strict=True)) for row in texts]
        if way == "page":
            return _page_rows(client.get(path, query))
        reply = client.get(path, {**query, "format": way})
        content = b"".join(reply.streaming_content)
        if way == "csv":
            return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
        if way == "xlsx":
            found = cells_of(content)
            return [{n: row.get(f"{n}_exact", text) for n, text in row.items()} for row in found]
        table = pq.read_table(io.BytesIO(content)).to_pylist()
        return [{n: "" if cell is None else str(cell) for n, cell in row.items()} for row in table]

    return rows


def _page_rows(reply) -> list[dict[str, str]]:
    """Cells of the page's table, exact where the page says so, by its columns."""
    body = reply.content.decode().partition("<tbody>")[2].partition("</tbody>")[0]
    heads = [column.name for column, _ in reply.context["columns"]]
    found = []
    for line in body.split("<tr")[1:]:
        cells = []
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", line, re.S):
            exact = re.search(r'<data value="([^"]*)"', cell)
            cells.append(unescape(exact[1] if exact else re.sub(r"<[^>]+>", "", cell).strip()))
        found.append(dict(zip(heads, cells, strict=True)))
    return found


def decimal(text: str) -> Decimal:
    return Decimal(text or "0")


def test_statements_line_by_line(read):
    for way in WAYS:
        found, given = {}, Decimal(0)
        for row in read(way, "team-statement"):
            if row["kind"].replace(" ", "_") in ("usage", "idle_share"):
                key = (row["team"], row["sku"], decimal(row["unit_price"]))
                found[key] = (decimal(row["gpu_hours"]), decimal(row["amount"]))
            elif row["kind"] == "adjustment":
                given += decimal(row["amount"])
        hand = {
            _said(key) if way == "page" else key: (gpu_hours(seconds), amount)
            for key, (seconds, amount) in LINES.items()
        }
        assert found == hand, way
        assert given == Decimal("-5.005")


def _said(key: tuple[str, str, Decimal]) -> tuple[str, str, Decimal]:
    """The page says `h100, guaranteed` where files say `h100:run-guaranteed`."""
    flavour, _, kind = key[1].partition(":")
    return (key[0], f"{flavour}, {kind.removeprefix('run-').replace('-', ' ')}", key[2])


def test_what_each_team_owes(read):
    for way in WAYS:
        sums: dict[str, Decimal] = {}
        for row in read(way, "period-summary"):
            sums[row["team"]] = sums.get(row["team"], Decimal(0)) + decimal(row["total"])
        assert sums == {
            "vision": Decimal(CENTS["team:1"]) / 100,
            "speech": Decimal(CENTS["team:2"]) / 100,
            "platform": Decimal(CENTS[PLATFORM]) / 100,
        }


def test_where_every_second_went(read):
    for way in WAYS:
        rows = read(way, "capacity")
        for bucket, seconds in CAPACITY.items():
            name = f"{bucket}_gpu_seconds"
            assert sum(int(row.get(name) or 0) for row in rows) == seconds, bucket
        assert sum(int(row["in_service_gpu_seconds"]) for row in rows) == IN_SERVICE


def test_what_was_used_of_all_days_stands_below_them(root, golden):
    report, sheet = open_report(root, "capacity", Ask(MONTH))
    used = sum_under(report.column("used_percent"), sheet.totals)
    assert used == round(Decimal(100 * CAPACITY["run"]) / IN_SERVICE, 2) > 0


def test_attempts_come_to_the_same(read):
    """Jobs and the pool's shares together are the lines; the adjustment is no usage."""
    for way in WAYS:
        amounts = sum((decimal(row["amount"]) for row in read(way, "job-cost")), Decimal(0))
        assert amounts == sum((amount for _, amount in LINES.values()), Decimal(0))


def test_days_of_use_and_waste_come_to_the_same(root, read, golden):
    for way in WAYS:
        amounts = sum((decimal(row["amount"]) for row in read(way, "use-and-waste")), Decimal(0))
        assert amounts == sum((amount for _, amount in LINES.values()), Decimal(0))
    _, sheet = open_report(root, "use-and-waste", Ask(MONTH))
    assert all(check.holds for check in sheet.checks), sheet.checks
    seconds = {name: int(sheet.totals[f"{name}_gpu_seconds"]) for name in ("held", "reserved_idle")}
    assert seconds["held"] == sum(CAPACITY[name] for name in ("run", "overhead", "unreachable"))
    assert seconds["reserved_idle"] == CAPACITY.get("reserved_idle", 0)
    # The pool of l40 shares what nobody held; nothing else of the month is a share.
    shared = sum(amount for (_, sku, _), (_, amount) in LINES.items() if sku.endswith("-share"))
    assert sheet.totals["shared_amount"] == shared > 0


def test_statements_and_focus_are_the_cents(root, golden, team, other_team):
    keys = {"team:1": f"team:{team.pk}", "team:2": f"team:{other_team.pk}", PLATFORM: PLATFORM}
    stored = {s.account: (s.units, s.exact) for s in Statement.objects.filter(close=golden)}
    assert stored == {keys[a]: (CENTS[a], Decimal(EXACT_SUMS[a])) for a in CENTS}
    assert golden.control == sum(CENTS.values())
    names, *rows = focus_rows(root, MONTH)
    invoice, cost = names.index("InvoiceId"), names.index("BilledCost")
    billed: dict[str, Decimal] = {}
    for row in rows:
        billed[row[invoice]] = billed.get(row[invoice], Decimal(0)) + Decimal(row[cost])
    assert sorted(billed.values()) == sorted(Decimal(units) / 100 for units in CENTS.values())


@pytest.fixture
def budgets(root, clerk, project, other_project):
    """Set before the story's first day, in `golden.BUDGETS`' order; trued up by the close."""
    fill_golden(root, clerk, {VISION: project, SPEECH: other_project})
    half, hours, money = at("15"), {"gpu_hours": 100}, {"amount": Decimal(200)}
    made = {}
    for name, owner, begin, limit in (
        ("vision", project.team, at("1"), money),
        ("org", None, at("1"), money),
        ("speech", other_project.team, at("1"), hours),
        ("speech late", other_project, half, money),
        ("vision late", project, half, hours),
    ):
        made[name] = set_budget(
            actor=root, owner=owner, valid_from=moment(begin), valid_until=moment(at("29")),
            now=moment(at("1")), **limit,
        ).pk  # fmt: skip
    return made


def test_budgets_come_to_what_the_ledger_says(root, budgets, client, read):
    for way in WAYS:
        rows = {int(row["budget"]): row for row in read(way, "budget-actual")}
        for name, pk in budgets.items():
            in_hours = isinstance(BUDGETS[name], int)
            shown = rows[pk]["actual_gpu_seconds" if in_hours else "actual_amount"]
            assert decimal(shown) == Decimal(BUDGETS[name]), (way, name)
    _, sheet = open_report(root, "budget-actual", Ask(MONTH))
    assert all(check.holds for check in sheet.checks), sheet.checks
    for name, pk in budgets.items():
        budget = Budget.objects.get(pk=pk)
        spent = from_steps(budget.spent) if budget.is_money else budget.spent
        assert abs(spent - Decimal(BUDGETS[name])) < Decimal("0.0000001"), name


def test_a_budget_counts_an_open_month_as_its_close_would_rate_it(root, budgets):
    books.true_up_budgets(now=moment(at("21")))
    _, sheet = open_report(root, "budget-actual", Ask(MONTH, now_s=at("21")))
    rows = {row.cells[0]: row.cells for row in sheet.rows(0)}
    names = [column.name for column in REPORTS["budget-actual"].columns]
    found = dict(zip(names, rows[budgets["vision"]], strict=True))
    assert found["actual_amount"] == Decimal(VISION_BY_THE_21ST)
    assert all(check.holds for check in sheet.checks), sheet.checks


BY_DAYS = ("capacity", "quota-use", "job-cost", "unit-cost", "usage-lines", "segments")


@pytest.mark.parametrize("slug", BY_DAYS)
def test_days_add_up_to_the_month(root, golden, slug):
    """Cut anywhere, and over the edge of the month: no second and no amount more or less."""
    narrowed = {"team": "vision"} if slug == "segments" else {}

    def totals(since="", until=""):
        ask = Ask(MONTH, since=since, until=until, **narrowed)
        _, sheet = open_report(root, slug, ask)
        assert all(check.holds for check in sheet.checks), sheet.checks
        assert sheet.checks or slug == "segments"
        wanted = ("gpu_seconds", "used_gpu_seconds", "run_gpu_seconds", "amount")
        return sheet.state, [sheet.totals[name] for name in wanted if name in sheet.totals]

    state, whole = totals()
    (_, early), (_, late) = totals(until=f"{MONTH}-13"), totals(since=f"{MONTH}-14")
    assert whole == [a + b for a, b in zip(early, late, strict=True)] and any(whole)
    over, found = totals(since=f"{MONTH}-14", until=f"{MONTH[:-2]}03-09")
    assert (state, over) == ("closed", "several months")
    # Devices were in service in March, too; what ran was over.
    assert found == late


def test_the_statement_on_paper(client, root, golden, team):
    client.force_login(root)
    number = Statement.objects.get(close=golden, account=f"team:{team.pk}").number
    page = client.get(f"/finance/statements/{number}/").content.decode()
    assert "128.66 EUR" in page


def test_what_is_learnt_later_is_corrected_in_march(read, root):
    """a3's card had failed: its three hours at 5.00 move from vision to the platform."""
    lose_a3()
    books.correct_period(actor=root, period=MONTH, reason="a3")
    (march,) = {entry.period.name for entry in _corrections()}
    for way in WAYS:
        effects = {
            (row["team"], decimal(row["effect"]))
            for row in read(way, "adjustments", march)
            if decimal(row["effect"])
        }
        assert effects == {("vision", Decimal(-15)), ("platform", Decimal(15))}


def _corrections():
    return LedgerEntry.objects.filter(kind="correction").select_related("period")
