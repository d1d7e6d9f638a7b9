"""What idles on a team's board: told by sums of spans where they stand, else by all readings."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from scheduler.models import DeviceSample, SummedHour
from scheduler.selectors.sharing.boards.activity import _OF_IDLE, read_activity
from scheduler.selectors.sharing.boards.little import IDLE_OVER, doing_little
from scheduler.services.timeline.readings.hours import sum_hours
from tests.pages.test_team_board import URL, board_scene, now

pytestmark = pytest.mark.django_db
assert board_scene and now, "its fixtures"


def test_sums_of_spans_stand_for_readings(client, board_scene, lead, now, team):
    """As they do where they are not summed; only whether it still does little is read."""
    (raw,) = read_activity(team.pk, since=None, now=now, leads=True).idle
    sum_hours(now=now)
    (summed,) = read_activity(team.pk, since=None, now=now, leads=True).idle
    assert (summed.job, summed.name, summed.owner) == (raw.job, raw.name, raw.owner)
    assert (summed.mean_percent, summed.highest_percent, summed.gpus) == (1.0, 1.0, 1)
    assert 10 <= summed.readings < raw.readings and now - IDLE_OVER <= summed.since
    DeviceSample.objects.filter(at__lt=now - timedelta(minutes=3)).delete()
    assert read_activity(team.pk, since=None, now=now, leads=True).idle == [summed]
    DeviceSample.objects.filter(attempt__job__name="sleepy").update(gpu_percent=90)
    client.force_login(lead)
    assert "sleepy" not in client.get(URL).content.decode(), "it works again"


def test_sums_that_ended_long_ago_stand_for_nothing(board_scene, now, team):
    sum_hours(now=now)
    (row,) = read_activity(team.pk, since=None, now=now, leads=True).idle
    SummedHour.objects.update(spans_s=F("spans_s") - 900)
    (raw,) = read_activity(team.pk, since=None, now=now, leads=True).idle
    assert raw.readings == 28 > row.readings


@pytest.mark.once
def test_readings_of_others_are_not_gone_through(board_scene, team, now):
    """With hours of them from thousands of GPUs a team's page would take seconds."""
    spans, samples = (part.explain() for part in doing_little(team.pk, now, _OF_IDLE))
    for plan, count in ((spans, 1), (samples, 2)):
        lines = [
            line for line in plan.splitlines() if "devicesample" in line or "sample_by" in line
        ]
        assert len(lines) == count
        assert all("sample_by_attempt (attempt_id=? AND at>?" in line for line in lines), plan
    assert spans.count("(attempt_id=? AND at>? AND at<?)") == 2, "spans of its attempts"
