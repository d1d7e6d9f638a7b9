"""For how long a highest price pays is counted anew as prices change."""

from datetime import timedelta
from decimal import Decimal

import pytest

from scheduler.models import Job, Node
from scheduler.money import steps_of
from scheduler.selectors.usage import job_cost
from scheduler.services.finishing import paying
from scheduler.services.finishing.paying import keep_prices
from scheduler.states import AttemptState, EndReason, JobState, WaitReason
from tests.loop.test_max_cost import priced, settled, told_limit
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
# A GPU costs 3.60 an hour, which is 0.001 a second; its grace is 30 s, its end has 5 s.
HOUR = 3600


def runs(cluster, alice, project, *, protocol=3, **more):
    """A job at work that 10 000 s are paid for, on nodes of this protocol."""
    job = submit(alice, project, max_cost="10", time_limit="6h", **more)
    attempt, node = start(job, cluster.node(1)), cluster.node(1)
    sync(node, running(attempt), now=at(1))
    Node.objects.update(protocol=protocol)
    assert attempt.cost_limit_s == 9965
    return job, attempt


@pytest.mark.parametrize("protocol", [3, 1])
def test_who_runs_as_prices_rise_is_stopped_before_it_costs_more(
    cluster, root, alice, project, protocol
):
    job, attempt = runs(cluster, alice, project, protocol=protocol)
    # Ten times as much from the next hour on: 3600 s at 0.001, then 640 s at 0.01.
    priced(root, 36, HOUR)
    settled(100)
    attempt.refresh_from_db()
    assert attempt.cost_limit_s == HOUR + 640 - 35 == told_limit(attempt)
    assert sum(keep_prices(now=at(attempt.cost_limit_s + second)) for second in (-1, 0)) == 1
    attempt.refresh_from_db()
    assert attempt.stop_reason == EndReason.MAX_COST_REACHED
    end = at(HOUR + 640)
    sync(cluster.node(1), ended(attempt, reason=EndReason.TIME_LIMIT, exit_code=143), now=end)
    assert job_cost(alice, job, now=end).cost <= 10


@pytest.mark.parametrize(("protocol", "limit_s"), [(3, 3600 + 64000 - 35), (1, 9965)])
def test_who_runs_as_prices_fall_runs_longer_where_its_nodes_can_be_told(
    cluster, root, alice, project, protocol, limit_s
):
    _, attempt = runs(cluster, alice, project, protocol=protocol)
    priced(root, "0.36", HOUR)
    settled(100)
    attempt.refresh_from_db()
    assert attempt.cost_limit_s == limit_s


def test_as_long_as_prices_stay_nobody_is_told_anything(cluster, alice, project):
    _, attempt = runs(cluster, alice, project)
    assert settled(100) == 0
    assert keep_prices(now=at(4000) + timedelta(milliseconds=999)) == 0
    attempt.refresh_from_db()
    assert (attempt.cost_limit_s, attempt.state) == (9965, AttemptState.RUNNING)


def test_who_is_paid_for_longer_than_any_job_runs_is_left_alone(cluster, alice, project):
    attempt = start(submit(alice, project, max_cost="100000", time_limit="6h"), cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(1))
    Node.objects.update(protocol=3)
    was_s = attempt.cost_limit_s
    assert settled(1000) == 0
    attempt.refresh_from_db()
    assert attempt.cost_limit_s == was_s


def test_who_gets_another_price_just_before_is_not_held(cluster, root, alice, project, monkeypatch):
    job = submit(alice, project, max_cost="0.1", time_limit="1h")
    priced(root, 36, 1)

    def raised(_):
        Job.objects.update(max_cost_steps=steps_of(Decimal(50)))
        return {}

    monkeypatch.setattr(paying, "short_facts", raised)
    assert settled(2) == 0
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_who_was_tried_on_the_platforms_bill_is_held_as_prices_rise_and_not_ended(
    cluster, root, alice, project
):
    job, node = submit(alice, project, max_cost="0.1", time_limit="1h"), cluster.node(1)
    attempt = start(job, node)
    sync(node, running(attempt), now=at(1))
    sync(node, ended(attempt, reason=EndReason.NODE_LOST), now=at(50))
    assert job_cost(alice, job, now=at(51)).cost == 0
    priced(root, 36, 200)
    assert settled(201) == 1
    job.refresh_from_db()
    assert (job.state, job.wait_reason) == (JobState.HELD, WaitReason.MAX_COST_SHORT)
    priced(root, "0.36", 500)
    assert settled(601) == 1
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


@pytest.mark.parametrize("every_s", [2, 3, 5])
def test_who_looks_seldom_looks_at_everybody(cluster, root, alice, project, every_s):
    for _ in range(every_s):
        submit(alice, project, max_cost="0.1", time_limit="1h")
    priced(root, 36, 1)
    looks = range(2, 2 + 120 * every_s, every_s)
    assert sum(keep_prices(now=at(second)) for second in looks) == every_s
