"""What it takes to count for how long highest prices pay."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.selectors.rates import RateTable
from scheduler.models import Attempt, Job
from scheduler.money import STEPS
from scheduler.services.finishing.limiting import limit_by_price
from scheduler.services.finishing.paying import keep_prices
from scheduler.services.prices.highest import seconds_left
from scheduler.states import EndReason
from tests.scenes import MODEL, NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


def test_prices_are_looked_up_once_an_hour_for_each_model(cluster, project, monkeypatch):
    asked = []
    at_once = RateTable.at
    monkeypatch.setattr(RateTable, "at", lambda *told: asked.append(1) or at_once(*told))
    many = [MODEL] * 256
    # 256 GPUs at 0.001 a second, for an hour and a half.
    assert seconds_left(STEPS * 256 * 54 // 10, many, project.team_id, NOON) == 5400
    assert len(asked) == 2


def test_as_many_statements_count_for_many_starts_as_for_one(cluster, alice, project):
    jobs = [submit(alice, project, max_cost="1", time_limit="1h") for _ in range(3)]
    attempts = [start(job, cluster.node(1 + at // 2)) for at, job in enumerate(jobs)]
    devices = {
        one.job_id: list(one.placements.values_list("allocations__device", flat=True))
        for one in attempts
    }
    by_id = {job.pk: Job.objects.select_related("project").get(pk=job.pk) for job in jobs}
    needed = []
    for some in (attempts[:1], attempts):
        with CaptureQueriesContext(connection) as seen:
            limit_by_price(some, by_id, devices, now=NOON)
        needed.append(len(seen))
    # The models of their GPUs, the prices of those, and the limits.
    assert needed == [3, 3]
    assert {one.cost_limit_s for one in Attempt.objects.all()} == {965}


def test_as_many_statements_look_at_many_that_wait_again_as_at_one(cluster, alice, project):
    needed = []
    for count in (1, 3):
        for _ in range(count):
            job = submit(alice, project, max_cost="1", time_limit="1h", retries=1)
            attempt = start(job, cluster.node(1))
            sync(cluster.node(1), running(attempt), now=at(1))
            sync(cluster.node(1), ended(attempt, reason=EndReason.EXIT_CODE), now=at(50))
        with CaptureQueriesContext(connection) as seen:
            assert keep_prices(now=at(51)) == 0
        needed.append(len(seen))
    assert needed[0] == needed[1]
