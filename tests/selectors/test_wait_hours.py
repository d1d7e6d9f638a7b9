"""Hours of a pool's line: counted once, added up by day, week and weekday."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from scheduler.models import Job, Pool, PoolHour, StartForecast
from scheduler.selectors.forecasts import Accuracy, forecast_accuracy
from scheduler.selectors.waits.buckets import bucket_of, counted, quantile, seconds_of
from scheduler.selectors.waits.hours import wait_history
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.history import record_event
from scheduler.services.timeline.hours import count_hours
from tests import scenes
from tests.loop.otherwise import two_pools
from tests.scenes import NOON, at, start, submit


@given(st.floats(0, 1e8), st.floats(0, 1e8))
def test_buckets_keep_the_order_and_a_tenth(one, other):
    low, high = sorted((one, other))
    assert bucket_of(low) <= bucket_of(high)
    if high >= 1:
        assert abs(seconds_of(bucket_of(high)) / high - 1) < 0.1


def test_quantiles_of_counts_that_add_up():
    waits = [counted([0.2, 0.4, 60]), counted([600, 6000])]
    assert quantile(waits, 0.5) == pytest.approx(60, rel=0.1)
    assert quantile(waits, 0.9) == pytest.approx(6000, rel=0.1)
    assert quantile(waits, 0.4) == 0 and quantile([], 0.5) is None


@pytest.mark.django_db
def test_hours_are_counted_once_and_shown(client, root, alice, carol, project):
    cluster = scenes.build_cluster(root, nodes=1, gpus=4)
    first, second, third = (submit(alice, project, now=at(60 * n)) for n in range(3))
    for job, p50_s, p90_s in ((first, 500, 900), (second, 300, 800)):
        StartForecast.objects.create(job=job, told_at=at(130), p50_at=at(p50_s), p90_at=at(p90_s))
    start(first, cluster.node(1), now=at(420))
    start(second, cluster.node(1), now=at(660))
    start(third, cluster.node(1), now=at(3700))
    assert count_hours(now=at(3599)) == 28 * 24  # the hours before noon
    assert count_hours(now=at(3600)) == 1 and count_hours(now=at(3601)) == 0
    row = PoolHour.objects.get(hour=NOON)
    assert (row.submitted, row.started, row.told, row.within_p50, row.within_p90) == (3, 2, 2, 1, 2)
    assert count_hours(now=at(7200)) == 1
    history = wait_history(carol, cluster.pool, zone=UTC)
    assert history is not None
    assert (history.day.started, history.within_p50, history.until) == (3, 0.5, at(7200))
    assert history.day.p50_s == pytest.approx(600, rel=0.1)
    friday_noon = history.cells[4 * 24 + 12]
    assert (friday_noon.submitted, friday_noon.started, friday_noon.step) == (3, 2, 1)
    assert history.cells[0].step == -1
    (day, waits) = history.by_day[-1]
    assert (day, waits.started, len(history.by_day)) == (NOON.date(), 3, 29)
    assert waits.p50_s == history.day.p50_s and history.by_day[0][1].started == 0
    client.force_login(carol)
    page = client.get(reverse("queue:list")).content.decode()
    assert "Day by day" in page and f"{NOON.day} {NOON:%b}, half waited " in page
    assert "How long people wait for default" in page and "Fri 12:00, " in page
    assert wait_history(carol, cluster.pool, zone=UTC) is not None
    assert count_hours(now=NOON + timedelta(days=200)) == 28 * 24
    assert not PoolHour.objects.filter(hour__lt=NOON + timedelta(days=100)).exists()


@pytest.mark.django_db
def test_what_a_job_was_held_is_no_wait_for_the_pool(root, alice, project):
    """However often, and from its submit on; a hold after its start is none before it."""
    cluster = scenes.build_cluster(root, nodes=1, gpus=4)
    first, second = (submit(alice, project, now=at(0), hold=number > 0) for number in range(2))
    for held_s, released_s in ((600, 1800), (2000, 3000)):
        hold_job(actor=alice, job=first, now=at(held_s))
        release_job(actor=alice, job=first, now=at(released_s))
    release_job(actor=alice, job=second, now=at(2400))
    first.refresh_from_db()
    second.refresh_from_db()
    start(first, cluster.node(1), now=at(3010))
    attempt = start(second, cluster.node(1), now=at(2410))
    for at_s, was, to in ((2500, "running", "held"), (2600, "held", "queued")):
        record_event(second, "moved", now=at(at_s), attempt=attempt, came_from=was, to=to)
    count_hours(now=at(3600))
    waits = PoolHour.objects.get(hour=NOON).waits
    assert waits == counted([600 + 200 + 10, 10])


@pytest.mark.django_db
def test_no_forecast_is_judged_by_a_job_that_was_changed_after_it(
    root, alice, project, django_assert_num_queries
):
    """Before its start; what was done to it after that, or before it was told, is no excuse."""
    cluster = scenes.build_cluster(root, nodes=1, gpus=4)
    for change_s in (100, 200, 500, None):
        job = submit(alice, project, now=at(0))
        StartForecast.objects.create(job=job, told_at=at(150), p50_at=at(300), p90_at=at(400))
        start(job, cluster.node(1), now=at(350))
        if change_s is not None:
            record_event(job, "limit_changed", now=at(change_s), actor=alice)
    late, left = (submit(alice, project, now=at(0)) for _ in range(2))
    for job in (late, left):
        StartForecast.objects.create(job=job, told_at=at(150), p50_at=at(300), p90_at=at(400))
    record_event(left, "request_changed", now=at(200), actor=alice)
    count_hours(now=at(3600))
    row = PoolHour.objects.get(hour=NOON)
    assert (row.started, row.told, row.within_p50, row.within_p90) == (4, 3, 0, 3)
    with django_assert_num_queries(1):
        (found,) = forecast_accuracy(alice, now=at(3600))
    assert found == Accuracy("default", 4, 4, 4, 0, 0.75), "one is overdue"


@pytest.mark.django_db
def test_a_start_is_one_of_the_pool_where_it_was(root, alice, project):
    """Though the job waits in another one when its hour is counted."""
    cluster = two_pools(root)
    job = submit(alice, project, now=at(60), pool="default, spare")
    start(job, cluster.node(1), now=at(600))
    Job.objects.filter(pk=job.pk).update(pool=Pool.objects.get(name="spare"), queued_at=at(900))
    count_hours(now=at(3600))
    started = dict(PoolHour.objects.filter(hour=NOON).values_list("pool__name", "started"))
    assert started == {"default": 1, "spare": 0}
    assert wait_history(alice, cluster.pool, zone=UTC).day.p50_s == 0
