"""Readings of the last minutes, not summed yet: *Use and waste* does not wait for them."""

from __future__ import annotations

import pytest

from scheduler.models import SummedHour
from scheduler.services.timeline.readings.hours import sum_hours
from tests.scenes import at
from tests.selectors.test_reports import opened
from tests.services.test_read_hours import (
    FIRST,
    HOUR_S,
    MIDNIGHT,
    SPAN,
    every_minute,
    held,
    reads,
)

pytestmark = pytest.mark.django_db
assert held, "its fixture"
NOW = FIRST + 1500


def used(root, second=NOW):
    """What the report says of the first day, and its remarks."""
    (row,), sheet = opened(root, "use-and-waste", **SPAN, now_s=int(at(second).timestamp()))
    assert all(check.holds for check in sheet.checks)
    return row, sheet.remarks


@pytest.fixture
def begun(held):
    """Idle for twenty minutes, then at work; summed until a minute and a half before NOW."""
    every_minute(held, MIDNIGHT - 3 * HOUR_S, FIRST + 1410)
    sum_hours(now=at(NOW))
    node, uuid, attempt = held
    reads(node, at(NOW), *((uuid, attempt.pk, NOW - back, 100.0) for back in range(1, 85)))


def test_what_is_held_meanwhile_goes_by_the_rest_of_its_day(begun, root):
    row, remarks = used(root)
    assert row["idle_gpu_seconds"] == row["held_gpu_seconds"] - row["around_gpu_seconds"]
    assert row["unread_gpu_seconds"] == row["work_gpu_seconds"] == 0
    assert any("count until 22:23:30 UTC" in one for one in remarks)
    sum_hours(now=at(NOW + 300))
    row, remarks = used(root, NOW + 300)
    assert row["work_gpu_seconds"] > 0 and any("count until 22:28:30" in one for one in remarks)


def test_the_page_says_it_below_its_table(begun, root, client, monkeypatch):
    client.force_login(root)
    monkeypatch.setattr("portal.pages.using.waste.timezone.now", lambda: at(NOW))
    page = client.get("/usage/waste/").content.decode()
    assert page.count("Readings of today count until 22:23:30 UTC") == 1
    assert '<p class="meta">Readings of today' in page


def test_where_sums_are_late_all_readings_count(begun, root):
    idle = used(root, NOW + 150)[0]["idle_gpu_seconds"]
    row, remarks = used(root, NOW + 151)
    assert row["work_gpu_seconds"] > 0 and row["idle_gpu_seconds"] < idle
    SummedHour.objects.all().delete()
    assert used(root)[0]["work_gpu_seconds"] > 0
    assert not any("count until" in one for one in remarks)
