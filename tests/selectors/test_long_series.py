"""Readings of long jobs: the moments asked for, the last minute whole, and no others read."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.reports.charts import mean_use
from scheduler.models import Device, DeviceSample
from scheduler.selectors.kept.picked import Picked, moments_between
from scheduler.selectors.telemetry import (
    CHART_POINTS,
    FULL,
    GLANCE_POINTS,
    MAX_POINTS,
    job_series,
    node_series,
    series_of,
)
from tests.scenes import NOON, build_cluster, start, submit

pytestmark = pytest.mark.django_db
HOURS_3 = 10_800


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def read(devices, attempt, seconds, use=lambda second: second % 100):
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device,
            attempt=attempt,
            at=at(second),
            gpu_percent=use(second),
            memory_used_mib=1000,
            power_watts=100,
            temperature_c=50,
        )
        for second in seconds
        for device in devices
    )


@pytest.fixture
def attempt(root, alice, project):
    cluster = build_cluster(root, nodes=1, gpus=10)
    job = submit(alice, project, gpus_per_node=10, now=NOON)
    return start(job, cluster.node(1), now=NOON)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    times=st.lists(st.integers(1, 60), min_size=1, max_size=12, unique=True),
    moments=st.lists(st.integers(-5, 70), min_size=1, max_size=6),
    since=st.integers(0, 30),
)
def test_what_is_picked_is_what_going_through_all_would_keep(root, times, moments, since):
    if not Device.objects.exists():
        build_cluster(root, nodes=2, gpus=2)
    DeviceSample.objects.all().delete()
    first, second, *_ = Device.objects.order_by("pk")
    read([first], None, times)
    read([second], None, times[:3])
    rows = DeviceSample.objects.filter(at__gt=at(since))
    wanted = set()
    for device in (first, second):
        for moment in moments:
            older = [one for one in rows.filter(device=device) if one.at <= at(moment)]
            wanted |= {max(older, key=lambda one: one.at).pk} if older else set()
    both = Device.objects.filter(pk__in=[first.pk, second.pk])
    picked = Picked(rows, both, [at(moment) for moment in moments])
    assert set(DeviceSample.objects.filter(pk__in=picked).values_list("pk", flat=True)) == wanted


def test_a_long_job_has_as_many_points_as_a_chart_shows(attempt, alice):
    devices = list(Device.objects.order_by("index"))
    read(devices, attempt, range(0, HOURS_3, 20))
    now = at(HOURS_3 - 20)
    with CaptureQueriesContext(connection) as asked:
        found = series_of(alice, attempt.job, attempt, now=now)
    assert len(asked) == 2, "what it holds, and all the readings"
    assert [one.index for one in found] == list(range(10))
    for one in found[:FULL]:
        assert CHART_POINTS - 2 <= len(one.at) <= CHART_POINTS + 3
        assert one.at == sorted(set(one.at))
        assert one.at[-3:] == [now - timedelta(seconds=ago) for ago in (40, 20, 0)]
        assert one.gpu_percent == [(moment - NOON).seconds % 100 for moment in one.at]
        steps = {b - a for a, b in zip(one.at[:-4], one.at[1:-3], strict=True)}
        assert max(steps) <= timedelta(seconds=80)
    for one in found[FULL:]:
        assert 0 <= CHART_POINTS * FULL // 10 - len(one.at) <= 2, "but for before its first"
        assert one.at[-1] == now


def test_a_short_job_has_all_its_readings(attempt, alice):
    device = Device.objects.order_by("index").first()
    read([device], attempt, range(0, 2 * CHART_POINTS - 120, 2))
    (one,) = series_of(alice, attempt.job, attempt, now=at(2 * CHART_POINTS - 120))
    assert len(one.at) == CHART_POINTS - 60
    (all_of_it,) = job_series(alice, attempt.job, now=at(MAX_POINTS))
    assert all_of_it.at == one.at


def test_only_what_is_new_is_told_again(attempt, alice):
    device = Device.objects.order_by("index").first()
    read([device], attempt, range(0, HOURS_3, 20))
    now = at(HOURS_3)
    (one,) = job_series(alice, attempt.job, since=at(HOURS_3 - 100), now=now)
    assert one.at == [at(second) for second in range(HOURS_3 - 80, HOURS_3, 20)]


def test_the_use_of_now_is_of_the_last_minute_and_of_all_devices_alike(attempt, alice):
    devices = list(Device.objects.order_by("index"))
    read(devices[:5], attempt, range(0, HOURS_3, 20), lambda second: 80)
    read(devices[5:], attempt, range(0, HOURS_3, 20), lambda s: 20 if s > HOURS_3 - 90 else 100)
    assert mean_use(series_of(alice, attempt.job, attempt, now=at(HOURS_3))) == 50


def test_a_node_shows_its_hour(attempt, alice):
    devices = list(Device.objects.order_by("index"))
    read(devices, attempt, range(0, HOURS_3, 10))
    now = at(HOURS_3)
    node = devices[0].node
    with CaptureQueriesContext(connection) as asked:
        found = node_series(alice, node, since=now - timedelta(hours=1), now=now)
    assert len(asked) == 1
    assert len(found) == 10
    for one in found:
        assert one.at[0] > now - timedelta(hours=1)
        assert GLANCE_POINTS <= len(one.at) <= GLANCE_POINTS + 7, "and the last minute"


def test_moments_end_with_the_last():
    found = moments_between(NOON, at(100), 4)
    assert found == [at(25), at(50), at(75), at(100)]
    assert moments_between(NOON, NOON, 2)[-1] == NOON


@pytest.mark.once
def test_no_reading_is_touched_that_is_not_shown():
    """As SQLite tells it: one step down the index of each device for each moment."""
    picked = Picked(DeviceSample.objects.filter(at__gt=NOON), Device.objects.all(), [at(1)])
    plan = DeviceSample.objects.filter(pk__in=picked).explain()
    steps = [line for line in plan.splitlines() if "devicesample" in line]
    assert any("(device_id=? AND at>? AND at<?)" in line for line in steps), plan
    assert not any("SCAN scheduler_devicesample" in line for line in steps), plan
