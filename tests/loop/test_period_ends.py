"""A period of a budget that renews itself is over: nobody starts between it and the next one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.models import Budget, BudgetHold
from scheduler.services.budgets.watching import watch_budgets
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.states import WaitReason
from tests.scenes import at, submit, sync

pytestmark = pytest.mark.django_db
END = datetime(2026, 12, 1, tzinfo=UTC)
HOUR_S = 3600


def after(seconds: float) -> datetime:
    return END + timedelta(seconds=seconds)


@pytest.fixture
def monthly(root, team, cluster):
    """Two GPU-hours a month; returns how to choose more of its rules."""

    def make(**rules) -> Budget:
        return set_budget(
            actor=root,
            owner=team,
            gpu_hours=2,
            valid_from=datetime(2026, 11, 1, tzinfo=UTC),
            valid_until=END,
            rules=BudgetRules(renewal="monthly", **rules),
            now=at(0),
        )

    return make


@pytest.fixture
def at_the_end(scheduler, cluster):
    """Cycles on both sides of the end, the first of which looks what time has brought about."""

    def cycle(seconds: float) -> int:
        for number in (1, 2):
            sync(cluster.node(number), now=after(seconds))
        return scheduler.run_cycle(after(seconds)).started

    return cycle


@pytest.mark.parametrize("commits_at", ["start", "submit"])
def test_who_waits_for_money_waits_on(monthly, at_the_end, alice, project, commits_at):
    job = submit(alice, project, time_limit="3h")
    monthly(commits_at=commits_at)
    assert [at_the_end(seconds) for seconds in (-0.1, 0.3, 0.5, 1.4, 2.5)] == [0] * 5
    job.refresh_from_db()
    assert job.wait_reason == WaitReason.BUDGET_EXHAUSTED
    assert Budget.objects.count() == 2


def test_who_can_be_paid_starts_at_once_and_the_next_period_holds_it(
    monthly, at_the_end, alice, project
):
    first = monthly(carry_percent=50)
    assert at_the_end(-0.1) == 0
    job = submit(alice, project, time_limit="2h", now=after(0.1))
    assert at_the_end(0.3) == 1
    following = Budget.objects.exclude(pk=first.pk).get()
    hold = BudgetHold.objects.get()
    assert (hold.budget, hold.attempt.job_id) == (following, job.pk)
    # All of the old period was left, and half of it goes on.
    assert (following.limit, following.committed) == (3 * HOUR_S, 2 * HOUR_S)


def test_what_was_planned_before_the_end_starts_after_it_only_once_there_is_a_budget(
    monthly, at_the_end, scheduler, cluster, alice, project
):
    monthly()
    assert at_the_end(-0.1) == 0
    job = submit(alice, project, time_limit="2h", now=after(-0.1))
    order = Start(job.pk, placed(cluster.node(1)))
    token = scheduler.lease.token
    assert start_attempts([order], lease_token=token, now=after(0.1)) == []
    watch_budgets(now=after(0.2))
    assert start_attempts([order], lease_token=token, now=after(0.3)) == [job.pk]
    assert BudgetHold.objects.get().budget.valid_from == END


def test_what_only_warns_keeps_nobody(monthly, at_the_end, scheduler, cluster, alice, project):
    monthly(enforcement="warn")
    assert at_the_end(-0.1) == 0
    job = submit(alice, project, time_limit="2h", now=after(-0.1))
    order = Start(job.pk, placed(cluster.node(1)))
    token = scheduler.lease.token
    assert start_attempts([order], lease_token=token, now=after(0.1)) == [job.pk]
    watch_budgets(now=after(0.2))
    assert BudgetHold.objects.get().budget.valid_from == END


def placed(node) -> tuple[PlacedOn, ...]:
    device = node.devices.order_by("index").values_list("pk", flat=True)[:1]
    return (PlacedOn(node_id=node.pk, rank=0, device_ids=tuple(device), cpus=1, memory_mib=1),)
