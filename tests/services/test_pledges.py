"""Budgets that commit at the submit: pledged once, passed on to the start, given back once."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db.models import Sum

from accounts.models import Rate
from accounts.services import set_rate
from scheduler.loop.cycle import Scheduler
from scheduler.models import Attempt, Budget, BudgetHold, BudgetPledge, Job, SchedulerLease
from scheduler.services.attempts import abandon_placements, locked_live_attempt
from scheduler.services.budgets.pledges import settle_pledges
from scheduler.services.bulk import submit_jobs
from scheduler.services.changing.by_hand import hold_job
from scheduler.services.changing.limits import set_time_limit
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.jobs import cancel_job, submit_job
from scheduler.services.sharing.budgets import BudgetRules, remove_budget, set_budget
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import EndReason, WaitReason, wait_sentence
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
HOUR_S = 3600
FROM, UNTIL = NOON - timedelta(days=1), NOON + timedelta(days=20)


@pytest.fixture
def cluster(root):
    """Two nodes of two GPUs, 3.60 EUR an hour."""
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def budget(root, team):
    def make(hours=None, *, owner=team, amount=None, begin=FROM, until=UNTIL, **rules):
        return set_budget(
            actor=root, owner=owner, gpu_hours=hours, amount=amount, valid_from=begin,
            valid_until=until, rules=BudgetRules(**{"commits_at": "submit", **rules}), now=at(0),
        )  # fmt: skip

    return make


def hours(budget):
    """Committed hours; the counter is what its rows add up to."""
    budget.refresh_from_db()
    open_holds = budget.holds.filter(settled_at=None)
    sums = [rows.aggregate(s=Sum("gpu_seconds"))["s"] or 0 for rows in (budget.pledges, open_holds)]
    assert budget.committed_s == sum(sums)
    return budget.committed_s / HOUR_S


def lose(attempt, now=at(60)):
    """Its node is lost: the job waits again."""
    attempt = locked_live_attempt(attempt.pk)
    placements = attempt.placements.select_related("node")
    abandon_placements(attempt, placements, EndReason.NODE_LOST, "gone", now)


def document(project, **fields):
    return {"name": "one", "project": project.path, "script": "true", "time_limit": "1h",
            "gpus_per_node": 1, **fields}  # fmt: skip


class TestSubmit:
    def test_a_job_commits_its_worst_case_all_the_way_up_or_is_refused(
        self, cluster, budget, alice, project
    ):
        top, own = budget(8, owner=None), budget(4)
        submit(alice, project, gpus_per_node=2, time_limit="90m")
        assert (hours(top), hours(own)) == (3, 3)
        with pytest.raises(SpecInvalid) as refused:
            submit(alice, project, gpus_per_node=2, time_limit="1h")
        assert "your team has 1.0 GPU-hours left until " in str(refused.value)
        assert "this job may take 2.0 GPU-hours" in str(refused.value)
        assert "ask an operator to raise the budget" in str(refused.value)
        assert (hours(top), hours(own)) == (3, 3)
        assert Job.objects.count() == 1
        submit(alice, project, gpus_per_node=0)
        assert hours(own) == 3

    def test_an_array_and_a_bulk_pledge_for_all_or_are_refused_as_a_whole(
        self, cluster, budget, alice, project
    ):
        own = budget(4)
        submit(alice, project, time_limit="1h", array={"range": "0-1", "max_parallel": 1})
        assert hours(own) == 2
        specs = [parse_spec(document(project, name=f"n{row}")) for row in range(3)]
        with pytest.raises(SpecInvalid, match=r"these 3 jobs may take 3\.0 GPU-hours"):
            submit_jobs(actor=alice, specs=specs, now=at(0))
        submit_jobs(actor=alice, specs=specs[:2], now=at(0))
        assert hours(own) == 4
        assert Job.objects.count() == BudgetPledge.objects.count() == 4

    def test_the_same_key_pledges_once(self, cluster, budget, alice, project):
        own, spec = budget(4), parse_spec(document(project))
        for _ in range(2):
            submit_job(actor=alice, spec=spec, idempotency_key="k", now=at(0))
        assert hours(own) == 1

    def test_money_is_pledged_at_the_dearest_price_and_a_higher_one_later_takes_no_more(
        self, cluster, budget, root, alice, project
    ):
        own = budget(amount=Decimal("7.20"))
        job = submit(alice, project, time_limit="2h")
        own.refresh_from_db()
        assert own.committed == own.limit
        with pytest.raises(SpecInvalid, match=r"has 0\.00 EUR left"):
            submit(alice, project, time_limit="1m")
        set_rate(
            actor=root,
            device_model=cluster.node(1).devices.first().model,
            valid_from=at(1),
            price_per_gpu_hour=Decimal(9),
            restated_for="dearer",
        )
        attempt = start(job, cluster.node(1), now=at(10))
        hold = BudgetHold.objects.get(attempt=attempt)
        own.refresh_from_db()
        assert own.committed == hold.money == own.limit
        assert not BudgetPledge.objects.exists()

    def test_the_scheduler_starts_what_was_pledged_at_a_lower_price(
        self, cluster, budget, root, alice, project
    ):
        own = budget(amount=Decimal("7.20"))
        jobs = [submit(alice, project, time_limit="1h") for _ in range(2)]
        Rate.objects.update(price_per_gpu_hour=Decimal(9))
        SchedulerLease.objects.all().delete()
        scheduler = Scheduler(holder="test")
        scheduler.run_cycle(at(1))
        own.refresh_from_db()
        assert Attempt.objects.filter(job__in=jobs).count() == 2
        assert own.committed == own.limit

    def test_a_pledge_is_honoured_without_any_price(self, cluster, budget, alice, project):
        own = budget(amount=Decimal("3.60"))
        job = submit(alice, project, time_limit="1h")
        Rate.objects.all().delete()
        start(job, cluster.node(1), now=at(10))
        own.refresh_from_db()
        assert own.committed == own.limit

    def test_what_is_kept_for_a_job_that_does_not_wait_is_given_back(
        self, cluster, budget, alice, project
    ):
        own = budget(2)
        job = submit(alice, project, time_limit="2h")
        # As if its end had given nothing back.
        Job.objects.filter(pk=job.pk).update(state="cancelled")
        assert settle_pledges(now=at(1)) == 1
        assert hours(own) == 0

    def test_more_than_can_be_counted_is_refused(self, cluster, budget, alice, project):
        budget(amount=Decimal("7.20"))
        Rate.objects.update(price_per_gpu_hour=Decimal(99_999_999))
        with pytest.raises(SpecInvalid, match=r"has 7\.20 EUR left"):
            submit_job(
                actor=alice,
                spec=parse_spec(document(project, array="0-9999", time_limit="30d")),
                now=at(0),
            )

    def test_without_such_a_budget_a_submit_costs_no_statement(
        self, cluster, budget, alice, project, django_assert_max_num_queries
    ):
        budget(8, commits_at="start")
        spec = parse_spec(document(project))
        with django_assert_max_num_queries(60) as plain:
            submit_jobs(actor=alice, specs=[spec], now=at(0))
        budget(8, owner=None)
        with django_assert_max_num_queries(60) as one:
            submit_jobs(actor=alice, specs=[spec], now=at(0))
        specs = [parse_spec(document(project, name=f"n{row}")) for row in range(5)]
        with django_assert_max_num_queries(60) as five:
            submit_jobs(actor=alice, specs=specs, now=at(0))
        assert len(one) <= len(plain) + 2
        assert len(five) == len(one)

    def test_only_a_budget_that_reserves_commits_at_the_submit(self, budget):
        with pytest.raises(Invalid, match="reserves"):
            budget(8, enforcement="warn")
        with pytest.raises(Invalid, match="submit, start"):
            budget(8, commits_at="never")


class TestLife:
    def test_a_pledge_becomes_the_hold_and_is_trued_up(self, cluster, budget, alice, project):
        own = budget(2)
        job = submit(alice, project, time_limit="2h")
        attempt = start(job, cluster.node(1))
        assert hours(own) == 2
        assert not own.pledges.exists()
        sync(cluster.node(1), running(attempt), now=at(1))
        sync(cluster.node(1), ended(attempt), now=at(600))
        assert hours(own) == 0
        assert own.spent_s == 600

    def test_the_scheduler_starts_what_has_pledged_all_there_is(
        self, cluster, budget, alice, project
    ):
        own = budget(2)
        jobs = [submit(alice, project, time_limit="1h") for _ in range(2)]
        SchedulerLease.objects.all().delete()
        Scheduler(holder="test").run_cycle(at(1))
        assert Attempt.objects.filter(job__in=jobs).count() == 2
        assert hours(own) == 2

    def test_what_waits_no_more_gives_back_once(self, cluster, budget, alice, project):
        own = budget(4)
        one, two = (submit(alice, project, time_limit="2h") for _ in range(2))
        hold_job(actor=alice, job=two)
        assert hours(own) == 4
        for _ in range(2):
            cancel_job(actor=alice, job=one)
            assert hours(own) == 2
        after = submit(alice, project, time_limit="1h", depends_on=[{"job": two.pk}])
        assert hours(own) == 3
        cancel_job(actor=alice, job=two)
        after.refresh_from_db()
        assert (after.state, hours(own)) == ("cancelled", 0)

    def test_another_time_limit_commits_the_difference_or_is_refused(
        self, cluster, budget, alice, project
    ):
        own = budget(4)
        job = submit(alice, project, time_limit="1h")
        set_time_limit(actor=alice, job=job, time_limit_s=3 * HOUR_S, now=at(1))
        assert hours(own) == 3
        words = r"has 1\.0 GPU-hours left, and this takes 2\.0 GPU-hours more"
        with pytest.raises(Conflict, match=words):
            set_time_limit(actor=alice, job=job, time_limit_s=5 * HOUR_S, now=at(2))
        job.refresh_from_db()
        set_time_limit(actor=alice, job=job, time_limit_s=HOUR_S, now=at(3))
        assert hours(own) == 1

    def test_who_waits_again_pledges_again_or_is_held_until_it_fits(
        self, cluster, budget, alice, project
    ):
        own = budget(4)
        job = submit(alice, project, time_limit="3h")
        lose(start(job, cluster.node(1)))
        job.refresh_from_db()
        assert (job.state, hours(own)) == ("queued", 0)
        # Somebody is faster.
        other = submit(alice, project, time_limit="2h", now=at(61))
        assert settle_pledges(now=at(62)) == 1
        job.refresh_from_db()
        assert (job.state, job.wait_reason) == ("held", WaitReason.BUDGET_EXHAUSTED)
        assert "has 2.0 GPU-hours left" in wait_sentence(job.wait_reason, job.wait_facts)
        assert settle_pledges(now=at(63)) == 0
        cancel_job(actor=alice, job=other)
        settle_pledges(now=at(64))
        job.refresh_from_db()
        assert (job.state, hours(own)) == ("queued", 3)
        assert settle_pledges(now=at(65)) == 0


class TestPeriods:
    def test_what_waits_goes_over_to_the_next_period_by_the_order_of_submit(
        self, cluster, budget, alice, project
    ):
        turn = at(HOUR_S)
        first = budget(9, until=turn)
        jobs = [submit(alice, project, time_limit=f"{n}h", now=at(n)) for n in (2, 3, 1)]
        following = budget(4, begin=turn, until=UNTIL)
        settle_pledges(now=turn + timedelta(seconds=1))
        for job in jobs:
            job.refresh_from_db()
        assert [job.state for job in jobs] == ["queued", "held", "queued"]
        assert (hours(first), hours(following)) == (0, 3)

    def test_a_budget_set_while_jobs_wait_begins_with_what_fits(
        self, cluster, budget, root, alice, project
    ):
        jobs = [submit(alice, project, time_limit="2h", now=at(n)) for n in (1, 2)]
        own = budget(3)
        settle_pledges(now=at(5))
        for job in jobs:
            job.refresh_from_db()
        assert ([job.state for job in jobs], hours(own)) == (["queued", "held"], 2)
        # A larger one lets the other go; one that commits at the start keeps nothing.
        budget(4)
        settle_pledges(now=at(6))
        assert hours(own) == 4
        budget(4, commits_at="start")
        assert hours(own) == 0
        remove_budget(actor=root, budget=Budget.objects.get())
        settle_pledges(now=at(7))
        assert set(Job.objects.values_list("state", flat=True)) == {"queued"}
