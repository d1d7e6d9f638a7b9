"""A job costs no more than its highest price, all attempts together."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from accounts.services import set_rate
from scheduler.loop.supposing.quoting import quote_job, quote_waiting
from scheduler.models import Attempt, Notification
from scheduler.money import seconds_paid
from scheduler.selectors.usage import job_cost
from scheduler.services.finishing.limits import tell_near_limits
from scheduler.services.finishing.paying import keep_prices
from scheduler.services.nodes.assignments import assignments_of
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.submitting.quotes import preview_job
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import (
    AttemptState,
    EndReason,
    JobState,
    WaitReason,
    end_sentence,
    shown_state,
    wait_sentence,
)
from tests.scenes import MODEL, NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
# A GPU costs 3.60 an hour, which is 0.001 a second; its grace is 30 s, its end has 5 s.
PRICE = {"max_cost": "1", "time_limit": "1h", "retries": 3}


def told_limit(attempt):
    [one] = attempt.placements.values_list("pk", flat=True)
    return assignments_of([one], NOON)[one].launch.time_limit_s


def test_seconds_are_paid_hour_by_hour_as_they_are_priced():
    half_past = NOON + timedelta(minutes=30)

    def dearer(moment: datetime) -> int:
        return 1 if moment < NOON + timedelta(hours=1) else 10

    assert seconds_paid(1_799, half_past, 9_999, dearer) == 1_799
    assert seconds_paid(1_800 + 105, half_past, 9_999, dearer) == 1_810
    assert seconds_paid(5, half_past, 9_999, lambda _: 0) == 9_999


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("0", "must be above 0"),
        ("much", "is not an amount of money"),
        ("1.0000001", "more than 6 decimals"),
        ("0.09", "give at least 0.10 EUR"),
    ],
)
def test_a_price_that_makes_no_sense_is_refused_with_its_field(
    cluster, alice, project, asked, words
):
    with pytest.raises(SpecInvalid) as refused:
        submit(alice, project, max_cost=asked)
    assert [one.field for one in refused.value.problems] == ["max_cost"]
    assert words in refused.value.problems[0].message


def test_its_node_is_told_the_earlier_of_time_limit_and_price(cluster, alice, project):
    job = submit(alice, project, **PRICE)
    assert (job.max_cost, job.spec["max_cost"]) == (Decimal(1), "1.00")
    attempt = start(job, cluster.node(1))
    # 1000 s are paid; the node stops it so that its grace is paid too.
    assert (attempt.cost_limit_s, told_limit(attempt)) == (965, 965)
    ample = start(submit(alice, project, max_cost=50, time_limit="1h"), cluster.node(1))
    assert told_limit(ample) == 3600


@pytest.mark.parametrize("who", ["server", "node"])
def test_it_is_stopped_before_it_costs_more(cluster, alice, project, who):
    job = submit(alice, project, **PRICE)
    attempt, node = start(job, cluster.node(1)), cluster.node(1)
    sync(node, running(attempt), now=at(3))
    assert keep_prices(now=at(964)) == 0
    if who == "server":
        assert keep_prices(now=at(965)) == 1
        attempt.refresh_from_db()
        assert attempt.state == AttemptState.STOPPING
        assert attempt.stop_reason == EndReason.MAX_COST_REACHED
        [desired] = sync(node, running(attempt), now=at(966)).assignments
        assert desired.stop.reason == EndReason.TIME_LIMIT
    sync(node, ended(attempt, reason=EndReason.TIME_LIMIT, exit_code=143), now=at(998))
    job.refresh_from_db()
    assert (job.state, job.end_reason) == (JobState.FAILED, EndReason.MAX_COST_REACHED)
    assert shown_state(job.state, job.end_reason) == "timed out"
    assert end_sentence(job.end_reason, job.end_facts).startswith("Its highest price was reached.")
    attempt.refresh_from_db()
    assert (attempt.failure, attempt.triage["signature"]) == ("timeout", "max_cost_reached")
    assert job_cost(alice, job, now=at(2000)).cost <= job.max_cost


# As its attempt has just ended, and long after in its turn.
@pytest.mark.parametrize(("first", "seconds"), [(1041, 1), (4000, 120)])
def test_a_retry_gets_what_is_left_and_none_is_begun_for_nothing(
    cluster, alice, project, first, seconds
):
    job, node = submit(alice, project, **PRICE), cluster.node(1)
    once = start(job, node)
    sync(node, running(once), now=at(1))
    sync(node, ended(once, reason=EndReason.EXIT_CODE, exit_code=1), now=at(600))
    job.refresh_from_db()
    assert job.state == JobState.QUEUED and keep_prices(now=at(600)) == 0
    second = start(job, node, now=at(700))
    assert second.cost_limit_s == 365
    sync(node, running(second), now=at(701))
    sync(node, ended(second, reason=EndReason.EXIT_CODE, exit_code=1), now=at(1040))
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    assert sum(keep_prices(now=at(first + second)) for second in range(seconds)) == 1
    job.refresh_from_db()
    assert (job.state, job.end_reason) == (JobState.CANCELLED, EndReason.MAX_COST_SPENT)
    assert Attempt.objects.filter(job=job).count() == 2
    assert job_cost(alice, job, now=at(2000)).cost == Decimal("0.94")


def test_a_quote_says_no_more_than_its_price_for_each_task(cluster, alice, project):
    document = {"name": "t", "project": project.path, "script": "x", "array": "0-3", **PRICE}
    quote = preview_job(actor=alice, spec=parse_spec(document), now=NOON)
    assert quote.worst_case_cost == 4
    # The whole time limit of each is 3.60: that is what runs cost as long as none is known.
    estimate = quote_job(actor=alice, spec=parse_spec(document), now=NOON).estimate
    assert (estimate.cost_p50, estimate.cost_p90) == (4, 4)
    assert quote.highest == (
        "The highest price of each task, 1.00 EUR, is enough for 16m at today's price; the time "
        "limit of 1h would cost 3.60 EUR."
    )
    spec = parse_spec({**document, "gpus_per_node": 1})
    assert spec.readable()["max_cost"] == "1.00"


def priced(root, price, second):
    """So much for a GPU-hour from then on."""
    words = {"currency": "EUR", "valid_from": at(second), "restated_for": "as if then"}
    set_rate(actor=root, device_model=MODEL, price_per_gpu_hour=Decimal(price), **words)


def settled(first, seconds=120):
    """Every job that waits has had its turn; returns how much was done."""
    return sum(keep_prices(now=at(first + second)) for second in range(seconds))


def test_who_is_not_paid_for_any_more_is_told_so_and_not_placed_again_and_again(
    scheduler, root, alice, project
):
    job = submit(alice, project, max_cost="0.1", time_limit="1h")
    # A GPU-second at 0.01: ten seconds are paid.
    priced(root, 36, 1)
    cycles = [scheduler.run_cycle(at(second)) for second in range(2, 12)]
    assert sum(one.started for one in cycles) == 0
    assert sum(one.dropped for one in cycles) <= 2
    job.refresh_from_db()
    assert (job.wait_reason, Attempt.objects.count()) == (WaitReason.MAX_COST_SHORT, 0)
    assert wait_sentence(job.wait_reason, job.wait_facts) == (
        "Its highest price does not pay for 1m and the time to stop, as GPUs cost by now."
    )


def test_who_waits_as_prices_rise_is_held_and_let_go_as_they_fall(cluster, root, alice, project):
    job = submit(alice, project, max_cost="0.1", time_limit="1h")
    assert settled(0) == 0
    priced(root, 36, 200)
    assert settled(201) == 1
    job.refresh_from_db()
    assert (job.state, job.wait_reason) == (JobState.HELD, WaitReason.MAX_COST_SHORT)
    assert settled(400) == 0
    priced(root, "0.36", 500)
    assert settled(601) == 1
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    assert start(job, cluster.node(1), now=at(700)).cost_limit_s > 60


@pytest.mark.parametrize(("asked", "least"), [("0.09", 0), ("0.1", 65), ("0.4", 0), ("0.65", 615)])
def test_no_start_is_for_less_time_than_its_least(cluster, alice, project, asked, least):
    """A minute, or what it asks for, with 30 s of grace and 5 s to be heard."""
    more = {"min_runtime": "10m"} if asked in ("0.4", "0.65") else {}
    if not least:
        with pytest.raises(SpecInvalid):
            submit(alice, project, max_cost=asked, **more)
        return
    job = submit(alice, project, max_cost=asked, **more)
    assert start(job, cluster.node(1)).cost_limit_s == least


def test_a_job_of_many_sizes_is_paid_on_the_smallest(cluster, alice, project):
    for nodes in ("1..2", "2"):
        with pytest.raises(SpecInvalid, match=r"0\.10" if ".." in nodes else r"0\.19"):
            submit(alice, project, max_cost="0.09", nodes=nodes)
    assert submit(alice, project, max_cost="0.1", nodes="1..2").pk


def test_whole_nodes_are_paid_with_all_their_gpus(cluster, alice, project):
    with pytest.raises(SpecInvalid, match=r"0\.19"):
        submit(alice, project, max_cost="0.1", exclusive=True)


def test_a_dearer_price_of_the_next_weeks_counts_at_the_submit(cluster, root, alice, project):
    priced(root, 36, 86400)
    with pytest.raises(SpecInvalid, match=r"0\.95"):
        submit(alice, project, max_cost="0.5")


def test_what_a_job_that_waits_may_cost_ends_at_its_price_and_budgets_commit_that(
    cluster, root, alice, team, project
):
    period = {"valid_from": at(-1), "valid_until": at(10**6), "now": at(0)}
    set_budget(actor=root, owner=team, amount=Decimal(100), **period)
    job = submit(alice, project, **PRICE)
    quote = quote_waiting(alice, job, now=at(1))
    assert (quote.worst_case_cost, quote.cost_p50) == (1, 1)
    spec = parse_spec({**job.spec, "name": "t"})
    for told in (quote.after.budgets, quote_job(actor=alice, spec=spec, now=at(1)).budgets):
        [budget] = told
        assert (budget.left, budget.after) == (100, 99)


def test_who_asks_is_warned_before_its_price_is_used_up(cluster, alice, project):
    job = submit(alice, project, notify="warn", name="t", **PRICE)
    attempt, node = start(job, cluster.node(1)), cluster.node(1)
    sync(node, running(attempt), now=at(3))
    Attempt.objects.update(started_at=at(3))
    # 965 s are paid: 80 % of them are 772.
    assert [tell_near_limits(now=at(second)) for second in (771, 772, 773, 869, 870)] == [
        0, 1, 0, 1, 0]  # fmt: skip
    first = Notification.objects.order_by("pk").first()
    assert first.title == "t has used 80 % of what its highest price pays for"
    assert first.text == (
        "In this attempt it pays for 16 min 5 s; 3 min 13 s are left. Its page says how to give it "
        "a higher one."
    )
