"""Budgets in hours and money: what is refused, committed, trued up, told, stopped, carried over."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from scheduler.loop.cycle import Scheduler
from scheduler.models import (
    Attempt,
    Budget,
    BudgetAlert,
    BudgetHold,
    Notification,
    UsageEntry,
)
from scheduler.money import MOST_MONEY, from_steps, steps_of
from scheduler.selectors.sharing.budgets import budget_views
from scheduler.services.budgets.telling import tell_alerts
from scheduler.services.budgets.watching import watch_budgets
from scheduler.services.inbox.mailing import write_mails
from scheduler.services.mailing.sending import send_mails
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.committing import settle_budgets
from scheduler.spec import SpecInvalid
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync
from tests.services.test_sharing import refused

pytestmark = pytest.mark.django_db
HOUR_S = 3600
FROM, UNTIL = NOON - timedelta(days=1), NOON + timedelta(days=20)


@pytest.fixture
def cluster(root):
    """Two nodes of two GPUs, 3.60 EUR an hour."""
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def money(root, team):
    def make(amount="10", *, owner=None, version=None, **rules):
        return set_budget(
            actor=root,
            owner=owner or team,
            amount=Decimal(amount),
            valid_from=FROM,
            valid_until=UNTIL,
            rules=BudgetRules(**rules),
            version=version,
            now=at(0),
        )

    return make


def euros(budget):
    budget.refresh_from_db()
    return from_steps(budget.committed), from_steps(budget.spent)


class TestMoney:
    def test_a_start_commits_its_price_and_its_end_spends_what_was_charged(
        self, cluster, money, alice, project
    ):
        budget = money("10")
        attempt = start(submit(alice, project, time_limit="2h"), cluster.node(1))
        assert euros(budget) == (Decimal("7.2"), 0)
        assert refused(submit(alice, project, time_limit="1h"), cluster.node(1))
        assert not refused(submit(alice, project, time_limit="40m"), cluster.node(1))
        sync(cluster.node(1), running(attempt), now=at(1))
        for _ in range(2):
            sync(cluster.node(1), ended(attempt), now=at(600))
        assert euros(budget) == (Decimal("2.4"), Decimal("0.6"))
        charged = sum(UsageEntry.objects.filter(attempt=attempt).values_list("cost", flat=True))
        assert charged == Decimal("0.6")

    def test_the_engine_plans_what_the_database_takes(self, cluster, root, team, alice, project):
        set_budget(
            actor=root, owner=team, amount=Decimal("7.20"), valid_from=FROM, valid_until=UNTIL,
            now=at(0),
        )  # fmt: skip
        first = submit(alice, project, time_limit="2h")
        second = submit(alice, project, time_limit="1m")
        with_lease().run_cycle(at(5))
        first.refresh_from_db()
        second.refresh_from_db()
        assert (first.state, second.state) == ("starting", "queued")
        assert second.wait_reason == "budget_exhausted"
        assert second.wait_facts["left"] == "0.00 EUR"
        assert second.wait_facts["asks"] == "0.06 EUR"

    def test_a_refunded_attempt_spends_nothing(self, cluster, money, alice, project):
        budget = money("10")
        attempt = start(submit(alice, project), cluster.node(1))
        sync(cluster.node(1), running(attempt), now=at(1))
        sync(cluster.node(1), ended(attempt, reason=EndReason.NODE_LOST), now=at(600))
        assert euros(budget) == (0, 0)

    def test_without_a_price_nothing_starts_and_nothing_is_free(
        self, cluster, money, alice, project
    ):
        from accounts.models import Rate

        money("10")
        Rate.objects.all().delete()
        job = submit(alice, project)
        assert refused(job, cluster.node(1))
        with_lease().run_cycle(at(5))
        job.refresh_from_db()
        assert job.wait_facts["asks"].endswith("no price is set for its GPUs")

    def test_a_price_that_is_about_to_rise_counts_at_once(
        self, cluster, root, money, alice, project
    ):
        from accounts.services import set_rate

        set_rate(
            actor=root, device_model=scenes.MODEL, price_per_gpu_hour=Decimal("5"),
            valid_from=at(HOUR_S), restated_for="as if then",
)  # fmt: skip
        budget = money("10")
        start(submit(alice, project, time_limit="2h"), cluster.node(1))
        assert euros(budget) == (Decimal("10"), 0)

    def test_a_warning_stops_nobody_and_counts_all(self, cluster, money, alice, project):
        budget = money("1", enforcement="warn")
        attempt = start(submit(alice, project, time_limit="2h"), cluster.node(1))
        sync(cluster.node(1), running(attempt), now=at(1))
        sync(cluster.node(1), ended(attempt), now=at(HOUR_S))
        assert euros(budget) == (0, Decimal("3.6"))

    def test_a_new_budget_begins_with_what_was_used_and_what_runs(
        self, cluster, money, alice, project
    ):
        done = start(submit(alice, project), cluster.node(1))
        sync(cluster.node(1), running(done), now=at(1))
        sync(cluster.node(1), ended(done), now=at(1000))
        start(submit(alice, project, time_limit="1h", gpus_per_node=2), cluster.node(2))
        budget = money("20")
        assert euros(budget) == (Decimal("7.2"), Decimal(1))


def with_lease():
    from scheduler.models import SchedulerLease

    SchedulerLease.objects.all().delete()
    return Scheduler(holder="test")


class TestAlerts:
    def test_each_threshold_goes_off_once_for_a_version(self, root, cluster, money, alice, project):
        budget = money("7.20", enforcement="warn")
        attempt = start(submit(alice, project, time_limit="2h"), cluster.node(1))
        sync(cluster.node(1), running(attempt), now=at(1))
        for seconds in (10, 3600, 3601, 3700, 5800, 5900, 7300, 7400):
            watch_budgets(now=at(seconds))
        fired = list(BudgetAlert.objects.order_by("pk").values_list("threshold", flat=True))
        assert fired == ["50", "80", "100", "forecast"]
        (view,) = budget_views(root, now=at(7450))
        assert view.told_at == "50, 80, 100 % used and 100 % forecast"
        money("7.20", version=1, enforcement="warn")
        watch_budgets(now=at(7500))
        assert BudgetAlert.objects.filter(version=2).count() == 4
        budget.refresh_from_db()
        assert budget.version == 2

    def test_looking_costs_one_query_while_nothing_is_due(self, money, django_assert_num_queries):
        money("5")
        watch_budgets(now=at(10))
        with django_assert_num_queries(1):
            assert watch_budgets(now=at(12)) == 0

    def test_an_alert_may_refuse_new_jobs(self, cluster, money, alice, project):
        money("1", enforcement="warn", action="block_submits", action_at="80")
        start(submit(alice, project, time_limit="2h"), cluster.node(1))
        watch_budgets(now=at(2000))
        with pytest.raises(SpecInvalid, match="project: the budget of your team lets nobody"):
            submit(alice, project, now=at(2001))
        money("100", version=1, enforcement="warn", action="block_submits", action_at="80")
        submit(alice, project, now=at(2002))

    def test_an_alert_may_leave_borrowed_gpus_only(
        self, cluster, root, team, money, alice, project
    ):
        from scheduler.services.sharing.limits import set_quota

        set_quota(actor=root, owner=team, guaranteed=2, borrow_limit=0)
        money("1", enforcement="warn", action="borrowed_only")
        start(submit(alice, project, time_limit="2h"), cluster.node(1))
        watch_budgets(now=at(2000))
        job = submit(alice, project, now=at(2001))
        with_lease().run_cycle(at(2002))
        job.refresh_from_db()
        assert (job.state, job.wait_reason) == ("queued", "quota_borrow_limit")

    def test_an_alert_is_mailed_once_to_those_it_concerns(
        self, cluster, money, alice, lead, root, project
    ):
        from django.core import mail

        money("1", enforcement="warn")
        start(submit(alice, project, time_limit="2h"), cluster.node(1))
        watch_budgets(now=at(600))
        assert tell_alerts(now=at(601)) == 1
        assert tell_alerts(now=at(602)) == 0
        assert write_mails(now=at(603)) == 2
        assert write_mails(now=at(604)) == 0
        assert send_mails(now=at(605)) == 2
        letter = mail.outbox[0]
        assert {one.to[0] for one in mail.outbox} == {lead.email, root.email}
        assert letter.subject == "Trainyard: Budget of vision: 50 % used"
        assert "0.60 EUR of 1.00 EUR" in letter.body
        assert "/teams/vision/quota/" in letter.body

    def test_a_leap_past_all_of_it_is_told_as_far_as_it_went(
        self, cluster, money, alice, lead, project
    ):
        money("1", enforcement="warn")
        start(submit(alice, project, time_limit="2h"), cluster.node(1))
        watch_budgets(now=at(2500))
        assert tell_alerts(now=at(2501)) >= 3
        told = Notification.objects.filter(person=lead, title__endswith="used")
        assert set(told.values_list("title", flat=True)) == {"Budget of vision: 250 % used"}
        assert "2.50 EUR of 1.00 EUR" in told.latest("pk").text


class TestHardStop:
    def test_it_stops_after_its_grace_and_the_job_waits_again(self, cluster, money, alice, project):
        budget = money("3.60", enforcement="hard_stop", grace_s=120)
        job = submit(alice, project, time_limit="4h")
        attempt = start(job, cluster.node(1))
        sync(cluster.node(1), running(attempt), now=at(1))
        watch_budgets(now=at(3599))
        assert not refused(submit(alice, project), cluster.node(2), at(3599))
        watch_budgets(now=at(3700))
        assert refused(submit(alice, project), cluster.node(2), at(3701))
        attempt.refresh_from_db()
        assert attempt.state == "running"
        watch_budgets(now=at(3900))
        attempt.refresh_from_db()
        assert (attempt.state, attempt.stop_reason) == ("stopping", EndReason.BUDGET_SPENT)
        sync(cluster.node(1), ended(attempt, reason=EndReason.PREEMPTED), now=at(3950))
        job.refresh_from_db()
        assert (job.state, job.end_reason) == ("queued", EndReason.BUDGET_SPENT)
        assert job.retries == job.user_retries_used == 0
        money("100", version=1, enforcement="hard_stop")
        assert not refused(job, cluster.node(1), at(4000))
        assert euros(budget)[1] == Decimal("3.95")


class TestCarryOver:
    def test_part_of_what_is_left_goes_to_the_next_period_once(self, root, team, money):
        budget = money("10", carry_percent=50)
        later = set_budget(
            actor=root, owner=team, amount=Decimal(4), valid_from=UNTIL,
            valid_until=UNTIL + timedelta(days=30), now=at(0),
        )  # fmt: skip
        Budget.objects.filter(pk=budget.pk).update(spent_money=steps_of(Decimal(2)))
        for seconds in (1, 2, 20):
            watch_budgets(now=UNTIL + timedelta(seconds=seconds))
        later.refresh_from_db()
        assert from_steps(later.limit) == Decimal(8)
        assert (later.version, from_steps(later.carried)) == (2, Decimal(4))
        again = set_budget(
            actor=root, owner=team, amount=Decimal(5), valid_from=UNTIL,
            valid_until=UNTIL + timedelta(days=30), now=UNTIL,
        )  # fmt: skip
        assert from_steps(again.limit) == Decimal(9)

    def test_what_the_next_one_cannot_count_is_not_carried(self, root, team, money):
        money("10", carry_percent=100)
        later = set_budget(
            actor=root, owner=team, amount=MOST_MONEY - 4, valid_from=UNTIL,
            valid_until=UNTIL + timedelta(days=30), now=at(0),
        )  # fmt: skip
        watch_budgets(now=UNTIL + timedelta(seconds=1))
        later.refresh_from_db()
        assert (from_steps(later.limit), from_steps(later.carried)) == (MOST_MONEY, Decimal(4))


def test_a_hold_is_released_once_however_often_it_is_settled(cluster, money, alice, project):
    budget = money("50")
    attempt = start(submit(alice, project, time_limit="2h"), cluster.node(1))
    for _ in range(3):
        settle_budgets(Attempt.objects.get(pk=attempt.pk), now=at(9))
    assert euros(budget) == (0, 0)
    assert BudgetHold.objects.get().settled_at == at(9)
