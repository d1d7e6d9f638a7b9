"""What is printed of a budget agrees with itself: on its page, at home and on a team's board."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.pages.people.board import draw
from scheduler.models import Budget, Notification
from scheduler.money import STEPS
from scheduler.selectors.books.overview import Burn
from scheduler.selectors.sharing.bars import budget_bars
from scheduler.selectors.sharing.boards.board import team_board
from scheduler.selectors.sharing.budgets import BudgetView, budget_views, printed_of
from scheduler.selectors.sharing.reckoning import Foresight, Standing
from scheduler.services.budgets.telling import tell_alerts
from scheduler.services.budgets.watching import watch_budgets
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from tests import scenes
from tests.scenes import NOON, at, running, start, submit, sync

DAYS = {"valid_from": NOON - timedelta(days=1), "valid_until": NOON + timedelta(days=20)}
FIGURES = st.integers(0, 10**6).map(lambda thousandths: thousandths * STEPS // 1000)
SECONDS = st.integers(0, 10**7)


def number(text: str) -> Decimal:
    return Decimal(text.partition(" ")[0].replace(",", ""))


def view_of(limit, used, kept, *, is_money):
    budget = Budget(
        money=limit if is_money else None, gpu_seconds=None if is_money else limit,
        currency="EUR", **DAYS,
    )  # fmt: skip
    return BudgetView(budget, Standing(used, kept), Foresight(used, used + kept, None), ())


@pytest.mark.parametrize("is_money", [True, False])
@given(st.data())
def test_what_is_over_is_the_difference_of_what_stands_beside_it(is_money, data):
    figures = FIGURES if is_money else SECONDS
    limit, used, kept = (data.draw(figures) for _ in range(3))
    view = view_of(limit, used, kept, is_money=is_money)
    printed, texts = printed_of(view.budget, view.standing), view.texts
    shown = {name: Decimal(printed.units(it)) for name, it in
             (("limit", limit), ("used", used), ("kept", kept))}  # fmt: skip
    over = max(0, shown["used"] - shown["limit"])
    worst = max(0, Decimal(printed.units(used + kept)) - shown["limit"])
    assert texts["over"].endswith("with what is committed") is (worst > over)
    found = [number(words) for words in texts["over"].split(", ") if words]
    scale = Decimal(1).scaleb(-printed.places)
    assert found == [it * scale for it in dict.fromkeys((over, worst)) if it]
    if is_money:
        assert number(texts["used"]) == shown["used"] / 100
        both = number(texts["used"]) + number(texts["kept"])
        assert both == Decimal(printed.units(used + kept)) / 100
        assert abs(number(texts["kept"]) - shown["kept"] / 100) <= Decimal("0.01")
        if number(texts["high"]) < 100:
            assert number(texts["high"]) == number(texts["low"]) + number(texts["kept"])


def test_the_worst_case_stays_while_a_job_turns_what_is_kept_into_what_is_used():
    cents = STEPS // 1000
    for so_far in (0, 4, 6, 8):
        used = 524 + so_far
        view = view_of(50 * cents, used * cents, (3_948 - used) * cents, is_money=True)
        assert view.texts["over"].endswith(" EUR over, 3.90 with what is committed")
        assert view.texts["high"] == "3.95" and view.is_used_up
    view = view_of(50 * cents, 524 * cents, 3_424 * cents, is_money=True)
    texts = view.texts
    assert (texts["limit"], texts["used"], texts["kept"]) == ("0.05", "0.52", "3.43")
    assert texts["over"] == "0.47 EUR over, 3.90 with what is committed"
    fits = view_of(5000 * cents, 524 * cents, 3_424 * cents, is_money=True)
    assert fits.texts["over"] == "" and not fits.is_used_up
    worst = view_of(1000 * cents, 524 * cents, 3_424 * cents, is_money=True)
    assert worst.texts["over"] == "2.95 EUR over with what is committed"


@pytest.mark.parametrize(
    ("used", "limit", "said"),
    [
        ("0", "40", "0 % used"),
        ("0.26", "40", "under 1 % used"),
        ("12.3", "40", "30 % used"),
        ("0.122", "0.05", "240 % used"),
        ("40.001", "40", "100 % used"),
        ("2.996", "0.05", "about 60 times its limit"),
        ("100", "0.05", "about 2,000 times its limit"),
        ("0.003", "0.001", "300 % used"),
    ],
)
def test_what_is_used_is_said_as_the_figures_beside_it_give_it(used, limit, said):
    used, limit = (int(Decimal(figure) * STEPS) for figure in (used, limit))
    assert view_of(limit, used, 0, is_money=True).texts["share"] == said


def test_the_index_of_the_books_says_a_share_as_budgets_do():
    kept = [Decimal(0), Decimal("0.01"), Decimal(39), Decimal(41), Decimal(3000)]
    shares = [Burn("vision", Decimal(40), Decimal(0), each, "GPU-hours").share for each in kept]
    assert shares == ["0 %", "under 1 %", "97 %", "102 %", "about 75 times"]


@pytest.mark.django_db
def test_home_board_and_page_say_the_same_of_one_budget(root, team, alice, lead, project):
    cluster = scenes.build_cluster(root, nodes=1, gpus=1)
    rules = BudgetRules(enforcement="warn")
    set_budget(actor=root, owner=team, amount=Decimal("1.25"), rules=rules, now=at(0), **DAYS)
    attempt = start(submit(alice, project, time_limit="2h"), cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(1))
    now = at(3600)
    (view,) = budget_views(lead, now=now)
    (bar,) = budget_bars(alice, now=now)
    (drawn,) = (draw(one, now) for one in team_board(lead, team, now=now).budgets)
    assert view.used_percent == bar.spent == 288
    assert view.texts["over"] == bar.over == drawn.over
    assert view.texts["share"] == bar.share == "288 % used"
    assert bar.over == "2.35 EUR over, 5.95 with what is committed"
    assert (bar.limit, bar.is_out, view.is_used_up) == ("1.25 EUR", True, True)


@pytest.mark.django_db
def test_an_alert_says_how_many_times_its_limit_was_used(root, team, alice, lead, project):
    cluster = scenes.build_cluster(root, nodes=1, gpus=1)
    rules = BudgetRules(enforcement="warn")
    set_budget(actor=root, owner=team, amount=Decimal("0.05"), rules=rules, now=at(0), **DAYS)
    start(submit(alice, project, time_limit="2h"), cluster.node(1))
    watch_budgets(now=at(2996))
    tell_alerts(now=at(2997))
    told = Notification.objects.filter(person=lead, title__endswith="times its limit").first()
    assert told.title == "Budget of vision: about 60 times its limit"
    assert "3.00 EUR of 0.05 EUR" in told.text
