"""A budget commits no more for a job than is left of its highest price."""

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.errors import Conflict
from scheduler.loop.answering import answer_for
from scheduler.loop.changing import change_job, preview, read_change
from scheduler.loop.supposing.quoting import quote_job, quote_waiting
from scheduler.models import Attempt, BudgetHold, BudgetPledge, Job, Node
from scheduler.money import STEPS, from_steps
from scheduler.selectors.sharing.reckoning import standings
from scheduler.services.budgets.pledges import settle_pledges
from scheduler.services.finishing.paying import keep_prices
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.usage import refund_attempt
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import EndReason, JobState, WaitReason, wait_sentence
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
# A GPU costs 3.60 an hour, which is 0.001 a second: ten hours are 36.
LONG = {"max_cost": "1", "time_limit": "10h"}


@pytest.fixture
def budget(root, team):
    def make(amount, *, hours=None, **rules):
        measure = {"gpu_hours": hours} if hours else {"amount": Decimal(amount)}
        return set_budget(
            actor=root, owner=team, valid_from=NOON - timedelta(days=1), now=at(0), **measure,
            valid_until=NOON + timedelta(days=20), rules=BudgetRules(**rules),
        )  # fmt: skip

    return make


def committed(budget):
    """In money; the counter is what its rows add up to."""
    budget.refresh_from_db()
    kept = [*budget.pledges.all(), *budget.holds.filter(settled_at=None)]
    assert budget.committed_money == sum(one.money for one in kept)
    assert budget.committed_s == sum(one.gpu_seconds for one in kept)
    return from_steps(budget.committed_money)


def changed(actor, job, second=300, **asked):
    job = Job.objects.get(pk=job.pk)
    return change_job(actor=actor, job=job, change=read_change(**asked), now=at(second))


def at_work(cluster, job):
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(2))
    Node.objects.update(protocol=3)
    return attempt


@pytest.mark.parametrize("commits_at", ["submit", "start"])
def test_a_cautious_job_is_let_in_where_its_long_limit_alone_is_not(
    scheduler, budget, alice, project, commits_at
):
    own = budget(2, commits_at=commits_at)
    spec = parse_spec({"name": "t", "project": project.path, "script": "true", **LONG})
    [told] = quote_job(actor=alice, spec=spec, now=at(0)).budgets
    assert (told.left, told.after, told.is_over) == (2, 1, False)
    jobs = [submit(alice, project, **LONG) for _ in range(2)]
    if commits_at == "submit":
        assert committed(own) == 2
        with pytest.raises(SpecInvalid, match=r"has 0\.00 EUR left.* may take what is left of its"):
            submit(alice, project, **LONG)
    [told] = quote_waiting(alice, jobs[0], now=at(0)).after.budgets
    assert told.after == (0 if commits_at == "submit" else 1)
    scheduler.run_cycle(at(1))
    assert Attempt.objects.filter(job__in=jobs).count() == 2
    assert committed(own) == 2
    hold = BudgetHold.objects.first()
    assert (hold.money, hold.whole_money) == (STEPS, 36 * STEPS)
    assert hold.gpu_seconds == 36_000


def test_why_it_waits_says_what_would_be_held_without_an_amount_of_its_price(
    scheduler, budget, alice, project
):
    budget(1, commits_at="start")
    job = submit(alice, project, max_cost="1.5", time_limit="10h")
    scheduler.run_cycle(at(1))
    job.refresh_from_db()
    assert job.wait_reason == WaitReason.BUDGET_EXHAUSTED
    said = wait_sentence(job.wait_reason, job.wait_facts)
    assert said.endswith("has 1.00 EUR left; the job may take what is left of its highest price.")
    # A lower price lets it start, and what that does is said before.
    own = preview(alice, job, read_change(max_cost="0.9"), now=at(2))["own"]
    assert own["then_at"] == at(2) and own["was_at"] != at(2)
    changed(alice, job, 3, max_cost="0.9")
    assert scheduler.run_cycle(at(4)).started == 1


def test_what_its_attempts_have_cost_is_held_no_more(scheduler, cluster, budget, alice, project):
    own = budget("1.05", commits_at="start")
    job = submit(alice, project, retries=1, **LONG)
    first = at_work(cluster, job)
    assert committed(own) == 1
    sync(cluster.node(1), ended(first, reason=EndReason.EXIT_CODE, exit_code=1), now=at(600))
    assert (committed(own), from_steps(own.spent_money)) == (0, Decimal("0.6"))
    # 0.45 are left of the budget, and 0.40 of its price.
    job.refresh_from_db()
    assert quote_waiting(alice, job, now=at(601)).worst_case_cost == Decimal("0.4")
    scheduler.run_cycle(at(602))
    assert job.attempts.count() == 2
    assert committed(own) == Decimal("0.4")


def test_a_price_that_was_paid_back_is_held_again_or_its_time_stays(
    cluster, root, budget, alice, project
):
    own = budget("1.1", commits_at="start")
    job, node = submit(alice, project, retries=1, **LONG), cluster.node(1)
    first = at_work(cluster, job)
    sync(node, ended(first, reason=EndReason.EXIT_CODE, exit_code=1), now=at(600))
    second = start(job, node, now=at(700))
    sync(node, running(second), now=at(701), protocol=3)
    assert second.cost_limit_s == 365 and committed(own) == Decimal("0.4")
    refund_attempt(first)
    for limit, kept, limit_s in (("0.9", "0.4", 365), ("2", "1", 965)):
        budget(limit, commits_at="start")
        for second_of_turn in range(113):
            keep_prices(now=at(720 + second_of_turn))
        second.refresh_from_db()
        assert (committed(own), second.cost_limit_s) == (Decimal(kept), limit_s)


def test_another_price_is_held_while_it_runs_by_the_checks_of_more_time(
    cluster, budget, alice, project
):
    own = budget(5, commits_at="start")
    job = submit(alice, project, **LONG)
    attempt = at_work(cluster, job)
    changed(alice, job, max_cost="4.5")
    assert committed(own) == Decimal("4.5")
    for asked in ("6", "none"):
        with pytest.raises(Conflict, match="Not paid for") as refused:
            changed(alice, job, max_cost=asked)
        assert refused.value.code == "budget"
    job.refresh_from_db()
    attempt.refresh_from_db()
    assert (job.max_cost, attempt.cost_limit_s) == (Decimal("4.5"), 4465)
    # More time takes nothing that the price does not pay for; a lower price gives back.
    changed(alice, job, time_limit="12h")
    assert committed(own) == Decimal("4.5")
    assert BudgetHold.objects.get().whole_money == 12 * 3_600_000 * 3_600
    changed(alice, job, max_cost="0.5", time_limit="20h")
    assert committed(own) == Decimal("0.5")
    sync(cluster.node(1), ended(attempt), now=at(302))
    assert committed(own) == 0 and from_steps(own.spent_money) == Decimal("0.302")


def test_without_a_price_the_whole_time_limit_is_held_again(cluster, budget, alice, project):
    own = budget(40, commits_at="start")
    job = submit(alice, project, **LONG)
    at_work(cluster, job)
    changed(alice, job, max_cost="none")
    assert committed(own) == 36
    assert BudgetHold.objects.get().whole_money is None


def test_another_price_is_pledged_while_it_waits(cluster, budget, alice, project):
    own = budget(5, commits_at="submit")
    job = submit(alice, project, hold=True, **LONG)
    changed(alice, job, max_cost="4")
    assert committed(own) == 4
    for asked in ({"max_cost": "6"}, {"max_cost": "none"}):
        with pytest.raises(Conflict, match=r"has 1\.00 EUR left"):
            changed(alice, job, **asked)
    job.refresh_from_db()
    assert job.max_cost == 4 and committed(own) == 4
    changed(alice, job, time_limit="1h")
    assert committed(own) == Decimal("3.6")
    # A lower price and more time together: no more than the price is asked for.
    changed(alice, job, max_cost="2", time_limit="20h")
    assert committed(own) == 2
    changed(alice, job, gpus_per_node="2")
    assert committed(own) == 2
    pledge = BudgetPledge.objects.get()
    assert pledge.whole_money == 2 * 20 * 3_600_000 * 3_600


def test_who_is_held_for_a_budget_goes_on_with_a_price_that_it_pays(
    cluster, budget, alice, project
):
    job = submit(alice, project, time_limit="10h")
    own = budget(5, commits_at="submit")
    settle_pledges(now=at(1))
    job.refresh_from_db()
    assert (job.state, job.wait_reason) == (JobState.HELD, WaitReason.BUDGET_EXHAUSTED)
    changed(alice, job, 2, max_cost="3")
    settle_pledges(now=at(3))
    job.refresh_from_db()
    assert job.state == JobState.QUEUED and committed(own) == 3


def test_a_budget_that_is_set_later_holds_what_is_left_of_it(cluster, budget, alice, project):
    job, node = submit(alice, project, retries=1, **LONG), cluster.node(1)
    first = at_work(cluster, job)
    sync(node, ended(first, reason=EndReason.EXIT_CODE, exit_code=1), now=at(600))
    second = start(job, node, now=at(700))
    sync(node, running(second), now=at(701))
    start(submit(alice, project, time_limit="1h"), node, now=at(702))
    assert committed(budget(100, commits_at="start")) == Decimal("4.0")


def test_what_it_has_used_so_far_goes_by_what_it_costs_a_second(cluster, budget, alice, project):
    own = budget(5, commits_at="start")
    at_work(cluster, submit(alice, project, **LONG))
    own.refresh_from_db()
    for second, used in ((400, "0.4"), (990, "0.99"), (2000, "1")):
        found = standings([own], now=at(second))[own.pk]
        assert (from_steps(found.used), from_steps(found.used + found.kept)) == (Decimal(used), 1)


def test_a_budget_in_gpu_hours_holds_the_whole_time(cluster, budget, alice, project):
    own = budget(0, hours=20, commits_at="submit")
    job = submit(alice, project, **LONG)
    own.refresh_from_db()
    assert (own.committed_s, own.committed_money) == (36_000, 0)
    changed(alice, job, max_cost="2")
    own.refresh_from_db()
    assert (own.committed_s, own.committed_money) == (36_000, 0)


def test_all_attempts_of_an_array_are_held_each_by_its_own(cluster, budget, alice, project):
    own = budget(3, commits_at="submit")
    submit(alice, project, array="0-2", **LONG)
    assert committed(own) == 3
    with pytest.raises(SpecInvalid, match="this job may take"):
        submit(alice, project, **LONG)


def test_who_may_not_see_costs_learns_no_amount_from_a_budget(
    cluster, budget, alice, operator, project
):
    own = budget("1.6", commits_at="submit")
    job = submit(alice, project, max_cost="0.7731", hold=True, time_limit="10m")
    assert committed(own) == Decimal("0.6")
    submit(alice, project, max_cost="0.9", hold=True, time_limit="10h")
    with pytest.raises(Conflict, match="up to its highest price") as refused:
        changed(operator, job, time_limit="10h")
    assert "0.77" not in refused.value.detail and "0.17" not in refused.value.detail


def test_why_it_is_held_for_a_budget_says_no_amount_of_its_price(cluster, budget, alice, project):
    job = submit(alice, project, max_cost="0.7731", time_limit="10h")
    budget("0.5", commits_at="submit")
    settle_pledges(now=at(5))
    job.refresh_from_db()
    assert job.state == JobState.HELD and "0.77" not in str(job.wait_facts)
    said = wait_sentence(job.wait_reason, job.wait_facts)
    assert said.endswith("has 0.50 EUR left; the job may take what is left of its highest price.")


def test_what_would_help_names_the_price_that_its_budget_pays_for(
    scheduler, budget, alice, operator, project
):
    budget("1.23", commits_at="start")
    job = submit(alice, project, time_limit="10h")
    scheduler.run_cycle(at(1))
    job.refresh_from_db()
    options = {one["kind"]: one for one in answer_for(alice, job, now=at(2))["options"]}
    assert options["price"]["words"] == "with a highest price of 1.23 EUR"
    assert options["price"]["fix"] == ["price:1.23"] and options["price"]["starts_now"]
    assert "price" not in {one["kind"] for one in answer_for(operator, job, now=at(2))["options"]}
    changed(alice, job, 3, max_cost="1.23")
    assert scheduler.run_cycle(at(4)).started == 1


def test_no_price_helps_where_its_budget_pays_for_too_little(scheduler, budget, alice, project):
    budget("0.05", commits_at="start")
    job = submit(alice, project, time_limit="10h")
    scheduler.run_cycle(at(1))
    job.refresh_from_db()
    kinds = {one["kind"] for one in answer_for(alice, job, now=at(2))["options"]}
    assert "price" not in kinds
