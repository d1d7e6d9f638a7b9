"""A price of six decimals from its proposal to the export of its month: nothing of it is lost."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.errors import Invalid
from accounts.models import Rate
from accounts.services import set_rate
from portal.cli.output import price as price_words
from scheduler.ledger.exact import gpu_hours
from scheduler.ledger.focus.rules import check
from scheduler.loop.loading.accounts import _left
from scheduler.models import Budget, BudgetHold, CommitsAt, LedgerEntry, UsageEntry, UsageLine
from scheduler.money import (
    MOST_COUNTED,
    MOST_MONEY,
    STEPS,
    cost_of,
    from_steps,
    steps_of,
    steps_of_cost,
    steps_per_s,
)
from scheduler.selectors.books import focus
from scheduler.services import books
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.committing import BudgetReached, take
from tests import scenes
from tests.api.conftest import problem_of
from tests.reports.workbook import cells_of
from tests.scenes import MODEL, NOON, at
from tests.selectors.test_focus import as_rows, payable
from tests.services.test_books import close

PRICES = ("0.000001", "1.234567")
_prices = st.integers(0, 10**11).map(lambda micro: Decimal(micro).scaleb(-6))
_seconds = st.integers(0, 10**8)


@given(_prices, _seconds)
def test_a_second_is_a_whole_number_of_steps_and_a_cost_says_which(price, seconds):
    steps = seconds * steps_per_s(price)
    assert Decimal(steps) / STEPS == seconds * price / 3600
    assert steps_of_cost(cost_of(seconds, price)) == steps
    assert from_steps(steps) == cost_of(seconds, price)


def test_seven_decimals_are_no_number_of_steps():
    for name in (steps_per_s, steps_of):
        with pytest.raises(ValueError, match="more than 6 decimals"):
            name(Decimal("0.0000001"))


@given(st.integers(0, int(MOST_MONEY) * STEPS))
def test_the_engine_never_sees_more_than_is_left(left):
    budget = Budget(money=left, enforcement="reserve", commits_at=CommitsAt.START)
    seen = _left(budget)
    assert seen is not None and int(float(seen)) <= left
    assert left - seen <= STEPS // 1_000_000
    if left < 2**50:
        assert seen == left


@pytest.fixture
def yard(root):
    return scenes.build_cluster(root, gpus=1)


@pytest.fixture
def priced(request, root, yard):
    price = Decimal(request.param)
    set_rate(
        actor=root, device_model=MODEL, price_per_gpu_hour=price,
        valid_from=NOON - timedelta(days=30), restated_for="as agreed",
    )  # fmt: skip
    return price


def run(person, project, node, seconds):
    attempt = scenes.start(scenes.submit(person, project, time_limit="1h"), node, now=at(0))
    scenes.sync(node, scenes.running(attempt), now=at(0))
    scenes.sync(node, scenes.ended(attempt), now=at(seconds))


@pytest.mark.django_db
class TestBooks:
    @pytest.mark.parametrize("priced", PRICES, indirect=True)
    @pytest.mark.parametrize("commits_at", CommitsAt.values)
    def test_what_is_committed_is_what_is_charged(
        self, root, alice, project, yard, priced, commits_at
    ):
        budget = set_budget(
            actor=root, owner=project, amount=Decimal(20), valid_from=NOON - timedelta(days=1),
            valid_until=NOON + timedelta(days=9), rules=BudgetRules(commits_at=commits_at),
            now=at(0),
        )  # fmt: skip
        run(alice, project, yard.node(1), 3_600)
        hold, charged = BudgetHold.objects.get(), UsageEntry.objects.get()
        assert charged.unit_price == priced
        assert hold.money == hold.spent_money == 3_600 * steps_per_s(priced) == steps_of(priced)
        budget.refresh_from_db()
        assert (budget.committed, from_steps(budget.spent)) == (0, priced)
        assert books.true_up_budgets(now=at(4_000)) == 0

    @pytest.mark.parametrize("priced", PRICES, indirect=True)
    def test_ledger_focus_and_files_have_all_digits(
        self, client, root, alice, project, yard, priced
    ):
        run(alice, project, yard.node(1), 3_599)
        closed = close(root)
        line, entry = UsageLine.objects.get(), LedgerEntry.objects.earliest("number")
        assert (line.unit_price, line.amount) == (priced, gpu_hours(3_599) * priced)
        assert (entry.unit_price, entry.amount) == (line.unit_price, line.amount)
        assert books.verify_ledger().breaks == ()
        for version in ("1.2", "1.3"):
            table = list(focus.focus_rows(root, "2026-11", version=version))
            rows = as_rows(table)
            assert list(check(table[0], rows, version, payable=payable(closed))) == []
            usage = rows[0]
            for name in ("List", "Contracted"):
                product = Decimal(usage[f"{name}UnitPrice"]) * Decimal(usage["PricingQuantity"])
                assert (Decimal(usage[f"{name}UnitPrice"]), product) == (priced, line.amount)
                assert Decimal(usage[f"{name}Cost"]) == product
        client.force_login(root)
        for way in ("csv", "xlsx", "parquet"):
            reply = client.get(
                "/finance/reports/team-statement/", {"period": "2026-11", "format": way}
            )
            row = rows_of(way, b"".join(reply.streaming_content))[0]
            assert Decimal(str(row["unit_price"])) == priced, way
            assert Decimal(str(row["amount"])) == line.amount, way
        page = client.get("/finance/reports/team-statement/", {"period": "2026-11"})
        assert str(priced) in page.content.decode()


def rows_of(way: str, content: bytes) -> list[dict[str, object]]:
    if way == "csv":
        return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    if way == "xlsx":
        found = cells_of(content)
        return [{n: row.get(f"{n}_exact", text) for n, text in row.items()} for row in found]
    return pq.read_table(io.BytesIO(content)).to_pylist()


@pytest.mark.django_db
class TestEntry:
    @pytest.mark.parametrize("price", PRICES)
    def test_rest_and_form_take_six_decimals_and_pages_show_them(self, client, root, yard, price):
        client.force_login(root)
        body = json.dumps({"device_model": "A100", "price_per_gpu_hour": price})
        made = client.post("/api/v1/rates/", body, content_type="application/json")
        assert made.json()["price_per_gpu_hour"] == price
        form = {
            "device_model": MODEL,
            "price_per_gpu_hour": price,
            "valid_from": "2126-12-01 00:00",
        }
        assert client.post("/finance/prices/", form).status_code == 302
        found = Rate.objects.exclude(price_per_gpu_hour=Decimal("3.60"))
        assert {one.price_per_gpu_hour for one in found} == {Decimal(price)}
        assert found.count() == 2
        assert client.get("/finance/prices/").content.decode().count(f"{price} EUR") >= 2

    def test_seven_decimals_are_refused_by_name(self, client, root):
        client.force_login(root)
        sent = {"device_model": "A100", "price_per_gpu_hour": "0.0000001"}
        for path in ("", "proposals/"):
            reply = client.post(
                f"/api/v1/rates/{path}", json.dumps(sent), content_type="application/json"
            )
            (wrong,) = problem_of(reply, 400)["errors"]
            assert wrong["field"] == "price_per_gpu_hour"
        with pytest.raises(Invalid, match="at most 6 decimals") as refusal:
            set_rate(actor=root, device_model="", price_per_gpu_hour=Decimal("1.0000001"))
        assert refusal.value.field == "price_per_gpu_hour"
        assert not Rate.objects.exists()

    def test_a_quote_says_the_price_and_what_is_left_of_a_budget(
        self, root, alice, client, project, yard
    ):
        set_rate(
            actor=root, device_model=MODEL, price_per_gpu_hour=Decimal("1.234567"),
            valid_from=NOON - timedelta(days=30), restated_for="as agreed",
        )  # fmt: skip
        set_budget(
            actor=root, owner=project, amount=Decimal("1.23"), now=at(0),
            valid_from=NOON - timedelta(days=1), valid_until=NOON + timedelta(days=36_500),
            rules=BudgetRules(commits_at=CommitsAt.START),
        )  # fmt: skip
        client.force_login(alice)
        spec = {"name": "train", "project": project.path, "command": ["true"]}
        spec |= {"gpus_per_node": 1, "time_limit": "1h"}
        reply = client.post(
            "/api/v1/jobs/?dry_run=1", json.dumps(spec), content_type="application/json"
        ).json()
        assert price_words(reply["unit_price"], "EUR") == "1.234567 EUR"
        (after,) = reply["budgets"]
        assert (after["is_over"], Decimal(after["after"])) == (True, Decimal("-0.004567"))


@pytest.mark.parametrize(
    ("text", "words"),
    [("1.2345670000", "1.234567 EUR"), ("2.5000000000", "2.50 EUR"), ("7", "7.00 EUR")],
)
def test_the_command_line_says_all_decimals(text, words):
    assert price_words(text, "EUR") == words


@pytest.mark.django_db
class TestBounds:
    @pytest.fixture
    def budget(self, root, team):
        return set_budget(
            actor=root, owner=team, amount=MOST_MONEY, valid_from=NOON - timedelta(days=1),
            valid_until=NOON + timedelta(days=9), rules=BudgetRules(enforcement="warn"), now=at(0),
        )  # fmt: skip

    def test_more_than_counters_hold_is_refused_by_name(self, root, team):
        with pytest.raises(Exception, match="up to 1000000000") as refusal:
            set_budget(
                actor=root, owner=team, amount=MOST_MONEY + 1, valid_from=NOON,
                valid_until=NOON + timedelta(days=9), now=at(0),
            )  # fmt: skip
        assert refusal.value.field == "amount"

    def test_a_full_counter_takes_no_more_and_breaks_nothing(self, budget):
        take(budget, "team", 1, 2**61)
        take(budget, "team", 1, 2**61 - 1)
        with pytest.raises(BudgetReached):
            take(budget, "team", 1, 1)
        Budget.objects.filter(pk=budget.pk).update(spent_money=MOST_COUNTED)
        budget.refresh_from_db()
        assert budget.committed_money == MOST_COUNTED
        take(budget, "team", -1, -(2**61))
