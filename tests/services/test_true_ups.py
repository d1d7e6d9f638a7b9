"""Budgets count what the ledger says: moved by the difference, once, nothing counted twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.models import AuditEvent, Rate, RateCard, RateDecision
from accounts.services import set_rate
from scheduler.models import Attempt, BudgetTrueUp, UsageLine
from scheduler.models.sharing import CommitsAt
from scheduler.money import from_steps
from scheduler.selectors.sharing.budgets import budget_views
from scheduler.services import books
from scheduler.services.books.budgets import truing
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import MODEL, NOON, at, ended, running, start, submit, sync
from tests.selectors.test_reports import opened
from tests.services.test_books import DECEMBER, clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
HOUR_S = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def give(root, team):
    def make(owner=None, rules=None, **limit):
        limit = limit or {"amount": Decimal(20)}
        return set_budget(
            actor=root, owner=owner or team, valid_from=NOON - timedelta(days=1),
            valid_until=NOON + timedelta(days=60), rules=rules, now=at(0), **limit,
        )  # fmt: skip

    return make


def price(root, amount, **more):
    set_rate(
        actor=root, device_model=MODEL, price_per_gpu_hour=Decimal(amount),
        valid_from=NOON - timedelta(days=30), restated_for="as agreed", **more,
    )  # fmt: skip


def ran(person, project, node, seconds, *, now_s=0, **more):
    attempt = start(submit(person, project, now=at(now_s), **more), node, now=at(now_s))
    sync(node, running(attempt), now=at(now_s))
    sync(node, ended(attempt), now=at(now_s + seconds))
    return attempt


def euros(budget):
    budget.refresh_from_db()
    return from_steps(budget.spent), from_steps(budget.committed)


def moves(budget):
    rows = BudgetTrueUp.objects.filter(budget=budget, is_opening=False).order_by("pk")
    return [from_steps(row.difference) for row in rows]


def test_a_price_that_was_restated_moves_what_is_spent_once(root, cluster, give, alice, project):
    budget = give()
    ran(alice, project, cluster.node(1), HOUR_S)
    assert euros(budget)[0] == Decimal("3.6")
    price(root, "5")
    assert [books.true_up_budgets(now=at(HOUR_S + s)) for s in (10, 20)] == [1, 0]
    assert euros(budget)[0] == 5
    assert moves(budget) == [Decimal("1.4"), 0]
    event = AuditEvent.objects.get(action="budget.true_up")
    assert (event.subject_id, event.actor) == (str(budget.pk), None)
    # A run that began before the last one and comes after it changes nothing.
    assert books.true_up_budgets(now=at(HOUR_S + 15)) == 0
    assert len(moves(budget)) == 2


def test_what_runs_is_in_its_hold_alone_until_it_ends(root, cluster, give, alice, project):
    budget = give()
    attempt = start(submit(alice, project, time_limit="2h"), cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(0))
    books.true_up_budgets(now=at(HOUR_S))
    assert euros(budget) == (0, Decimal("7.2"))
    sync(cluster.node(1), ended(attempt), now=at(HOUR_S + 60))
    assert euros(budget) == (Decimal("3.66"), 0)
    assert books.true_up_budgets(now=at(HOUR_S + 70)) == 0


def test_what_ends_while_a_run_counts_is_counted_once(
    root, cluster, give, alice, project, monkeypatch
):
    budget = give()
    attempt = start(submit(alice, project, time_limit="2h"), cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(0))
    count = truing.count_so_far

    def slowly(*args, **more):
        found = count(*args, **more)
        sync(cluster.node(1), ended(attempt), now=at(HOUR_S + 1))
        ran(alice, project, cluster.node(2), 1800, now_s=HOUR_S)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(truing, "count_so_far", slowly)
        assert books.true_up_budgets(now=at(HOUR_S)) == 0
    assert euros(budget) == (Decimal("3.601") + Decimal("1.8"), 0)
    assert books.true_up_budgets(now=at(2 * HOUR_S)) == 0


def test_what_the_platform_broke_and_credits_leave_a_budget_of_hours_and_of_money(
    root, clerk, yard, team, project, give
):
    """Two hours of vision: lost after the month was closed, they go back in the month of now."""
    money, hours = give(), give(owner=project, gpu_hours=50)
    assert (euros(money)[0], hours.spent) == (Decimal("7.2"), 2 * HOUR_S)
    close(root)
    assert euros(money)[0] == Decimal("7.2")
    lost = UsageLine.objects.filter(account__endswith=f"project:{project.pk}").first()
    Attempt.objects.filter(pk=lost.attempt_id).update(
        end_reason=EndReason.NODE_LOST, ended_at=DECEMBER
    )
    books.correct_period(actor=root, period="2026-11", reason="lost", now=DECEMBER)
    assert books.true_up_budgets(now=DECEMBER + timedelta(minutes=1)) == 2
    hours.refresh_from_db()
    assert (euros(money)[0], hours.spent) == (0, 0)


def test_without_a_price_it_is_said_and_counts_as_soon_as_there_is_one(
    root, cluster, give, alice, project
):
    Rate.objects.all().delete()
    budget = give(rules=BudgetRules(enforcement="warn"))
    ran(alice, project, cluster.node(1), HOUR_S)
    books.true_up_budgets(now=at(HOUR_S + 1))
    words = f"no price for {MODEL} (run guaranteed) since 20 Nov 2026: 1.0 GPU-hours"
    (view,) = budget_views(root, now=at(HOUR_S + 2), only=[budget.pk])
    assert view.said[0].startswith(words)
    _, sheet = opened(root, "budget-actual")
    ((whose, note),) = sheet.notes
    assert whose.startswith(f"Budget {budget.pk} of ") and words[1:] in note
    price(root, "5")
    books.true_up_budgets(now=at(HOUR_S + 3))
    (view,) = budget_views(root, now=at(HOUR_S + 4), only=[budget.pk])
    assert (view.said, euros(budget)[0]) == ((), 5)


def test_what_the_teams_own_card_prices_has_a_price(root, cluster, give, alice, project, team):
    price(root, "5")
    approved = {"decision": RateDecision.APPROVED, "currency": "EUR"}
    own = RateCard.objects.create(name="own", team=team, **approved)
    Rate.objects.update(card=own)
    budget = give(rules=BudgetRules(enforcement="warn"))
    ran(alice, project, cluster.node(1), HOUR_S)
    books.true_up_budgets(now=at(HOUR_S + 1))
    (view,) = budget_views(root, now=at(HOUR_S + 2), only=[budget.pk])
    assert (view.said, euros(budget)[0]) == ((), 5)


def test_dearer_than_what_was_kept_is_over_the_limit_and_said(root, cluster, give, alice, project):
    budget = give(amount=Decimal("3.60"))
    ran(alice, project, cluster.node(1), HOUR_S, time_limit="1h")
    price(root, "5")
    books.true_up_budgets(now=at(HOUR_S + 1))
    assert euros(budget)[0] == 5
    (view,) = budget_views(root, now=at(HOUR_S + 2), only=[budget.pk])
    assert view.said == (
        "1.40 EUR over its limit: the ledger charges 1.40 EUR more than was counted when jobs "
        "ended.",
    )
    rows, sheet = opened(root, "budget-actual")
    assert all(check.holds for check in sheet.checks) and len(sheet.notes) == 1
    assert rows[0]["actual_amount"] == 5


def test_a_budget_that_began_with_use_ties_at_once(root, yard, give):
    """The report used to miss what was used before the budget was set."""
    budget = give()
    (row,), sheet = opened(root, "budget-actual")
    assert all(check.holds for check in sheet.checks), sheet.checks
    assert row["actual_amount"] == euros(budget)[0] == Decimal("7.2")
    books.true_up_budgets(now=at(2 * HOUR_S))
    (row,), sheet = opened(root, "budget-actual")
    assert all(check.holds for check in sheet.checks) and row["actual_amount"] == Decimal("7.2")


def test_a_difference_between_limits_and_ledger_is_shown(root, clerk, yard, give, project):
    give()
    books.true_up_budgets(now=at(2 * HOUR_S))
    adjustment = books.propose_adjustment(
        actor=clerk, project=project, amount=Decimal("-0.2"), reason="sorry", now=at(2 * HOUR_S)
    )
    books.post_adjustment(actor=root, adjustment=adjustment, now=at(2 * HOUR_S))
    (row,), sheet = opened(root, "budget-actual")
    (broken,) = [check for check in sheet.checks if not check.holds]
    assert (broken.left - broken.right, broken.unit) == (Decimal("0.2"), "EUR")
    assert "Limits count 7.20 EUR, the ledger says 7.00 EUR" in sheet.notes[0][1]
    assert row["actual_amount"] == 7
    books.true_up_budgets(now=at(2 * HOUR_S + 1))
    _, sheet = opened(root, "budget-actual")
    assert all(check.holds for check in sheet.checks)


def of_november(root, team, **more):
    return set_budget(
        actor=root, owner=team, valid_from=datetime(2026, 11, 1, tzinfo=UTC),
        valid_until=datetime(2026, 12, 1, tzinfo=UTC), now=at(0), **more,
    )  # fmt: skip


def test_a_months_budget_is_compared_when_its_month_closes_and_after(
    root, cluster, alice, project, team
):
    budget = of_november(root, team, amount=Decimal(20))
    ran(alice, project, cluster.node(1), 1001)
    books.true_up_budgets(now=at(HOUR_S))
    assert euros(budget)[0] == Decimal("1.001")
    close(root)
    assert euros(budget)[0] == 1 and len(moves(budget)) == 2
    _, sheet = opened(root, "budget-actual")
    assert all(check.holds for check in sheet.checks), sheet.checks
    # With nothing new it is left alone.
    books.true_up_budgets(now=DECEMBER + timedelta(minutes=1))
    assert len(moves(budget)) == 2


def test_what_runs_over_a_close_is_in_its_hold_alone(root, cluster, alice, project, team):
    budget = of_november(root, team, amount=Decimal(2000))
    attempt = start(submit(alice, project, time_limit="14d"), cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(0))
    close(root)
    assert UsageLine.objects.filter(attempt_id=attempt.pk).exists()
    assert euros(budget)[0] == 0 and euros(budget)[1] > 1000
    _, sheet = opened(root, "budget-actual")
    assert all(check.holds for check in sheet.checks), sheet.checks
    sync(cluster.node(1), ended(attempt), now=DECEMBER + timedelta(hours=1))
    books.true_up_budgets(now=DECEMBER + timedelta(hours=2))
    # Twelve hours of the 20th and ten days are November's.
    assert euros(budget) == (Decimal("3.6") * (12 + 240), 0)
    _, sheet = opened(root, "budget-actual")
    assert all(check.holds for check in sheet.checks), sheet.checks


def test_a_pledge_is_committed_too(root, cluster, give, alice, project):
    budget = give(rules=BudgetRules(commits_at=CommitsAt.SUBMIT))
    submit(alice, project, time_limit="2h")
    assert euros(budget)[1] == Decimal("7.2")
    _, sheet = opened(root, "budget-actual")
    assert all(check.holds for check in sheet.checks), sheet.checks


def test_time_after_a_price_ended_is_said(root, cluster, give, alice, project):
    Rate.objects.update(valid_until=at(HOUR_S // 2))
    budget = give(rules=BudgetRules(enforcement="warn"))
    ran(alice, project, cluster.node(1), HOUR_S)
    books.true_up_budgets(now=at(HOUR_S + 1))
    last = BudgetTrueUp.objects.filter(budget=budget, is_opening=False).get()
    assert last.unpriced == [[MODEL, "run-guaranteed", "2026-11-20", HOUR_S // 2]]


def test_a_budget_to_the_end_of_the_calendar_is_compared_like_any_other(
    root, cluster, alice, project, team
):
    end = datetime.max.replace(microsecond=0, tzinfo=UTC)
    budget = set_budget(
        actor=root, owner=team, amount=Decimal(20), valid_from=NOON - timedelta(days=1),
        valid_until=end, now=at(0),
    )  # fmt: skip
    ran(alice, project, cluster.node(1), HOUR_S)
    books.true_up_budgets(now=at(HOUR_S + 1))
    (row,), sheet = opened(root, "budget-actual")
    assert row["actual_amount"] == euros(budget)[0] == Decimal("3.6")
    assert all(check.holds for check in sheet.checks), sheet.checks


def test_what_is_in_a_budgets_days_and_has_no_price_is_said_of_those(
    root, cluster, alice, project, team
):
    later = 3 * 86_400
    ran(alice, project, cluster.node(1), HOUR_S)
    ran(alice, project, cluster.node(1), HOUR_S // 2, now_s=later)
    Rate.objects.update(valid_until=at(0))
    budget = set_budget(
        actor=root, owner=team, amount=Decimal(20), valid_from=at(later - HOUR_S),
        valid_until=at(later + 86_400), now=at(0),
    )  # fmt: skip
    books.true_up_budgets(now=at(later + 2 * HOUR_S))
    last = BudgetTrueUp.objects.filter(budget=budget, is_opening=False).get()
    assert last.unpriced == [[MODEL, "run-guaranteed", "2026-11-23", HOUR_S // 2]]
