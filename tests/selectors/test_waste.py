"""What was held and did nothing, by spans of little use; and what was reserved and not used."""

from __future__ import annotations

from decimal import Decimal

import pytest

from scheduler.models import DeviceSample
from scheduler.services.telemetry import prune_telemetry
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.selectors.test_reports import opened
from tests.services.test_books import close

pytestmark = pytest.mark.django_db
MINUTE = 60


def read_every_minute(attempt, percents):
    """One reading a minute from noon on, of the attempt's first device."""
    device = attempt.placements.get().allocations.get().device
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device, attempt=attempt, at=at(MINUTE * minute), gpu_percent=percent,
            memory_used_mib=1, power_watts=1, temperature_c=1,
        )
        for minute, percent in enumerate(percents)
    )  # fmt: skip


def test_a_span_counts_by_its_mean_and_the_longest_stretch_is_told(root, alice, project):
    """Two hours: 10 minutes idle, 40 at work with pauses of a minute, 70 minutes idle."""
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = start(submit(alice, project, name="sleepy"), node, now=at(0))
    sync(node, running(attempt), now=at(0))
    # One busy second within five minutes is no work; one idle minute within five is no rest.
    at_work = [0, 90, 90, 90, 90] * 8
    percents = [*[4, 4, 9, 0, 0] * 2, *at_work, *[0] * 70]
    read_every_minute(attempt, percents)
    sync(node, ended(attempt), now=at(7200))
    close(root)

    def figures():
        (row,), sheet = opened(root, "idle-waste", now_s=int(at(7200).timestamp()))
        assert all(check.holds for check in sheet.checks), sheet.checks
        assert sheet.remarks == ("Idle: below 5 % of use on average over 5 minutes.",)
        return row

    row = figures()
    assert (row["what"], row["readings"], row["allocated_gpu_seconds"]) == ("sleepy", 120, 7200)
    assert (row["idle_gpu_seconds"], row["longest_idle_s"]) == (4800, 4200)
    assert row["waste"] == Decimal("4.8")
    # Rolled up to hours it stays as it was, also where a stretch crosses the hour.
    assert prune_telemetry(now=at(3 * 86_400)) == 120
    assert figures() == row


def test_spans_and_threshold_are_settings(root, alice, project, settings):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = start(submit(alice, project), node, now=at(0))
    sync(node, running(attempt), now=at(0))
    read_every_minute(attempt, [0] * 5 + [30] * 5)
    sync(node, ended(attempt), now=at(600))
    settings.TRAINYARD = settings.TRAINYARD | {"idle_below_percent": 20, "idle_span_s": 600}
    (row,), sheet = opened(root, "idle-waste", now_s=int(at(900).timestamp()))
    assert (row["idle_gpu_seconds"], row["longest_idle_s"]) == (600, 600)
    assert sheet.remarks == ("Idle: below 20 % of use on average over 10 minutes.",)
