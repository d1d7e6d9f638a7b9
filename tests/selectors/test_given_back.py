"""Devices of one placement that are given back at several moments: one bar of a timeline."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Allocation, Attempt, Device, Node, Placement
from scheduler.selectors.machines.timeline import timeline
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


@pytest.mark.parametrize("by", ["node", "team"])
@pytest.mark.parametrize("hours", [(1, 2), (2, 1), (1, None)])
def test_what_was_given_back_in_parts_is_one_bar_to_its_last_moment(alice, yard, by, hours):
    now = timezone.now().replace(microsecond=0)
    began = now - timedelta(hours=3)
    node = Node.objects.filter(devices__isnull=False).first()
    devices = list(Device.objects.filter(node=node)[:2])
    Allocation.objects.filter(device__in=devices, released_at=None).update(released_at=now)
    attempt = Attempt.objects.create(
        job=yard.succeeded, number=10, state="ended", assigned_at=began, started_at=began
    )
    its = Placement.objects.create(attempt=attempt, node=node, rank=0, cpus=1, memory_mib=1)
    Allocation.objects.bulk_create(
        Allocation(
            placement=its,
            device=device,
            acquired_at=began + timedelta(minutes=place),
            released_at=began + timedelta(hours=ends) if ends else None,
        )
        for place, (device, ends) in enumerate(zip(devices, hours, strict=True))
    )
    rows = timeline(alice, start=began - timedelta(hours=1), end=now, now=now, by=by).rows
    (bar,) = [bar for row in rows for bar in row.bars if bar.start == began]
    kind = "running" if None in hours else "past"
    assert (bar.kind, bar.gpus, bar.job) == (kind, 2, yard.succeeded.pk)
    assert kind == "running" or bar.end == began + timedelta(hours=2)
