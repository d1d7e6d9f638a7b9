"""What slowed GPUs down: read on the node, kept as hours, told on pages."""

from __future__ import annotations

import pytest
from django.urls import reverse

from portal.reports.charts import slowed_of
from scheduler.models import DeviceHour, DeviceSample
from scheduler.selectors.telemetry import job_series
from scheduler.services.telemetry import prune_telemetry
from scheduler.wire.readings import DeviceSample as Reading
from tests import scenes
from tests.scenes import at, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt(root, alice, project):
    """Two GPUs for ten minutes: the first too hot in one reading of four, the second does not
    tell."""
    node = scenes.build_cluster(root, nodes=1, gpus=2).node(1)
    attempt = start(submit(alice, project, gpus_per_node=2), node, now=at(0))
    sync(node, running(attempt), now=at(0))
    first, second = node.devices.order_by("index")
    read = [
        Reading(
            first.uuid, at(60 * minute).timestamp(), 90.0, 5, 600.0, 91.0, attempt.pk,
            slowed_by_heat=minute % 4 == 0, slowed_by_power=True,
        )
        for minute in range(12)
    ]  # fmt: skip
    untold = [
        Reading(second.uuid, at(60 * minute).timestamp(), 90.0, 5, 600.0, 60.0, attempt.pk)
        for minute in range(12)
    ]
    sync(node, running(attempt), samples=(*read, *untold), now=at(700))
    return attempt


def test_it_is_told_by_reading_and_then_by_hour(alice, attempt):
    first, second = job_series(alice, attempt.job, now=at(700))
    assert first.slowed_by_heat[:5] == [100, 0, 0, 0, 100] and set(first.slowed_by_power) == {100}
    assert set(second.slowed_by_heat) == {None}
    (row,) = slowed_of([first, second])
    assert (row.by_heat, row.by_power) == (25, 100) and "GPU 0" in row.name
    assert prune_telemetry(now=at(3 * 86_400)) == 24
    assert not DeviceSample.objects.exists()
    kept = DeviceHour.objects.order_by("device__index").values_list(
        "slowed_by_heat", "slowed_by_power"
    )
    assert list(kept) == [(25, 100), (None, None)]
    (later,) = slowed_of(job_series(alice, attempt.job, now=at(3 * 86_400)))
    assert later == row


def test_pages_and_rest_say_so(client, alice, root, attempt, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: at(700))
    client.force_login(alice)
    pages = [
        reverse("jobs:metrics", args=[attempt.job_id]),
        reverse("jobs:detail", args=[attempt.job_id]),
        reverse("nodes:detail", args=[attempt.placements.get().node.name]),
    ]
    for address in pages:
        page = client.get(address)
        assert [(one.by_heat, one.by_power) for one in page.context["slowed"]] == [(25, 100)]
        assert "25 %" in page.content.decode().partition('id="slowed"')[2]
    items = client.get(f"/api/v1/jobs/{attempt.job_id}/samples/").json()["items"]
    assert [one["slowed_by_power"][0] for one in items] == [100, None]
    DeviceSample.objects.update(slowed_by_heat=0, slowed_by_power=0)
    assert 'id="slowed"' not in client.get(pages[0]).content.decode()
