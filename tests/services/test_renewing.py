"""Budgets that renew themselves: once, with the same limit and rules, whatever was missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from accounts.models import AuditEvent
from scheduler.models import Budget
from scheduler.services.budgets.watching import watch_budgets
from scheduler.services.errors import Invalid
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from tests.scenes import at

pytestmark = pytest.mark.django_db


class TestRenewal:
    """A period is over: the next one begins by itself, once, with the same limit and rules."""

    def months(self, root, owner, gpu_hours=10, **more):
        rules = BudgetRules(renewal="monthly", **more)
        return set_budget(
            actor=root,
            owner=owner,
            gpu_hours=gpu_hours,
            valid_from=datetime(2026, 11, 1, tzinfo=UTC),
            valid_until=datetime(2026, 12, 1, tzinfo=UTC),
            rules=rules,
            now=at(0),
        )

    def test_the_next_month_begins_once_and_takes_over_what_is_left(self, root, team):
        first = self.months(root, team, carry_percent=50, enforcement="warn")
        december = datetime(2026, 12, 1, 0, 0, 5, tzinfo=UTC)
        watch_budgets(now=december - timedelta(minutes=1))
        assert Budget.objects.count() == 1
        watch_budgets(now=december)
        watch_budgets(now=december + timedelta(seconds=1))
        first.refresh_from_db()
        (following,) = Budget.objects.exclude(pk=first.pk)
        assert (following.valid_from, following.valid_until) == (
            datetime(2026, 12, 1, tzinfo=UTC),
            datetime(2027, 1, 1, tzinfo=UTC),
        )
        assert (following.limit, following.carried) == (15 * 3600, 5 * 3600)
        assert (following.enforcement, following.renewal) == ("warn", "monthly")
        watch_budgets(now=datetime(2027, 1, 1, tzinfo=UTC))
        third = Budget.objects.latest("valid_from")
        assert third.limit - third.carried == 10 * 3600, "what was carried is not renewed"
        assert AuditEvent.objects.filter(action="budget.renew").count() == 2

    def test_what_was_granted_is_not_carried_on(self, root, team):
        """It ends with the period: 100 h and 50 h granted, of which 80 were used, leave 20."""
        first = self.months(root, team, gpu_hours=100, carry_percent=100)
        Budget.objects.filter(pk=first.pk).update(
            gpu_seconds=150 * 3600, granted=50 * 3600, spent_s=80 * 3600
        )
        watch_budgets(now=datetime(2026, 12, 1, 0, 0, 5, tzinfo=UTC))
        (following,) = Budget.objects.exclude(pk=first.pk)
        assert (following.limit, following.carried) == (120 * 3600, 20 * 3600)

    def test_after_months_without_anybody_looking_every_period_is_there(self, root, team):
        self.months(root, team)
        for second in range(4):
            watch_budgets(now=datetime(2027, 2, 10, 0, 0, second, tzinfo=UTC))
        starts = Budget.objects.order_by("valid_from").values_list("valid_from", flat=True)
        assert [f"{one:%Y-%m}" for one in starts] == ["2026-11", "2026-12", "2027-01", "2027-02"]

    def test_one_set_by_hand_for_the_time_after_stays(self, root, team):
        first = self.months(root, team)
        by_hand = set_budget(
            actor=root,
            owner=team,
            gpu_hours=99,
            valid_from=datetime(2026, 12, 5, tzinfo=UTC),
            valid_until=datetime(2026, 12, 9, tzinfo=UTC),
            now=at(0),
        )
        watch_budgets(now=datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC))
        assert set(Budget.objects.all()) == {first, by_hand}

    @pytest.mark.parametrize(
        ("begin", "until", "renewal"),
        [
            ((2026, 11, 1), (2026, 12, 2), "monthly"),
            ((2026, 11, 1), (2026, 12, 1), "quarterly"),
            ((2026, 12, 31), (2027, 1, 31), "monthly"),
            ((2026, 11, 1), (2026, 12, 1), "weekly"),
        ],
    )
    def test_what_cannot_come_again_is_refused(self, root, team, begin, until, renewal):
        with pytest.raises(Invalid) as refused:
            set_budget(
                actor=root,
                owner=team,
                gpu_hours=10,
                valid_from=datetime(*begin, tzinfo=UTC),
                valid_until=datetime(*until, tzinfo=UTC),
                rules=BudgetRules(renewal=renewal),
                now=at(0),
            )
        assert refused.value.field == "renewal"
        assert not Budget.objects.exists()
