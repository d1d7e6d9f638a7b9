"""A start counts from when it was committed, not from when its cycle began."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from scheduler.loop import cycle
from scheduler.models import Allocation
from tests.scenes import NOON, submit

pytestmark = pytest.mark.django_db


def test_nobody_holds_a_device_from_before_the_snapshot_that_saw_it_free(
    scheduler, alice, project, monkeypatch
):
    """Found by `manage.py torture --seed 1`: two holders of a device for 0.2 s."""
    submit(alice, project)
    load = cycle.load_snapshot

    def load_slowly(*args, **kwargs):
        loaded = load(*args, **kwargs)
        # Meanwhile a node gives a device back, at a moment of its own.
        time.sleep(0.05)
        return loaded

    monkeypatch.setattr(cycle, "load_snapshot", load_slowly)
    assert scheduler.run_cycle(NOON).started == 1
    assert Allocation.objects.get().acquired_at >= NOON + timedelta(seconds=0.05)
