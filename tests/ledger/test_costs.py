"""Assets written off to the last cent, and cost recovered exactly."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ledger.costs.assets import Plan
from scheduler.ledger.costs.recovery import Recovery, to_recover
from scheduler.ledger.exact import EXACT, ZERO, total

MONEY = st.integers(0, 10**11).map(lambda cents: Decimal(cents).scaleb(-2))


def test_three_years_by_hand():
    """36 months of 2026-2028 are 1096 days: 300 000 - 26 000 at 250 a day."""
    plan = Plan(Decimal("300000"), Decimal("26000"), date(2026, 1, 1), 36)
    assert (plan.end, plan.a_day) == (date(2029, 1, 1), Decimal("250"))
    assert plan.used_by(date(2026, 2, 1)) == 31 * 250
    assert plan.used_by(date(2030, 1, 1)) == Decimal("274000")


@pytest.mark.parametrize(
    ("since", "months", "end"),
    [
        (date(2026, 1, 31), 1, date(2026, 2, 28)),
        (date(2027, 12, 31), 2, date(2028, 2, 29)),
        (date(2026, 11, 15), 1, date(2026, 12, 15)),
        (date(2026, 11, 15), 2, date(2027, 1, 15)),
        (date(2024, 2, 29), 12, date(2025, 2, 28)),
        (date(2026, 12, 1), 12, date(2027, 12, 1)),
        (date(9979, 1, 1), 240, date.max),
    ],
)
def test_a_life_ends_on_the_same_day_of_a_later_month(since, months, end):
    assert Plan(Decimal(1), ZERO, since, months).end == end


@given(MONEY, MONEY, st.dates(date(2000, 1, 1), date(2090, 1, 1)), st.integers(1, 120), st.data())
def test_days_add_up_to_the_value_and_the_last_one_takes_the_rest(cost, rest, since, months, data):
    plan = Plan(max(cost, rest), min(cost, rest), since, months)
    life = (plan.end - since).days
    days = sorted(data.draw(st.lists(st.integers(0, life + 400), max_size=6)))
    marks = [since, *(since + timedelta(days=day) for day in days), plan.end]
    parts = [EXACT.subtract(plan.used_by(b), plan.used_by(a)) for a, b in pairwise(marks)]
    assert total(parts) == plan.value
    assert plan.used_by(since) == ZERO
    last = EXACT.subtract(plan.value, plan.used_by(plan.end - timedelta(days=1)))
    assert plan.a_day <= last < plan.a_day + life * Decimal("0.000001") + Decimal("0.000001")


@given(MONEY, st.integers(1, 60), st.integers(0, 2500))
def test_what_is_retired_early_is_used_or_given_up(cost, months, after):
    since = date(2026, 3, 14)
    until = since + timedelta(days=after)
    plan = Plan(cost, ZERO, since, months, until)
    late = date(2050, 1, 1)
    assert EXACT.add(plan.used_by(late), plan.given_up_by(late)) == cost
    assert plan.given_up_by(until - timedelta(days=1)) == ZERO
    assert plan.used_by(until) == plan.used_by(late)


@given(
    MONEY,
    MONEY,
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**12), max_size=6),
)
def test_cost_is_met_exactly_by_who_ran(cost, charged, run):
    """Charged and recovered are the cost, to the fifteenth place; also where it goes back."""
    pool = Recovery("p", cost, charged, run, by_cost=True)
    parts, remarks = to_recover(pool)
    if any(run.values()):
        assert EXACT.add(charged, total(parts.values())) == cost
        assert not remarks
        assert pool.effective_rate is not None
    else:
        assert parts == {}
        assert bool(remarks) == (cost != charged)
    assert to_recover(Recovery("p", cost, charged, run, by_cost=False)) == ({}, [])


def test_variance_by_hand():
    pool = Recovery("p", Decimal("1000"), Decimal("750"), {"a": 3600, "b": 3 * 3600}, by_cost=True)
    assert (pool.variance, pool.percent) == (Decimal("-250"), Decimal("75.00"))
    assert pool.effective_rate == Decimal("250")
    assert to_recover(pool)[0] == {"a": Decimal("62.5"), "b": Decimal("187.5")}
