"""The planted bug in pools still reaches what it breaks; `manage.py torture` finds it."""

from __future__ import annotations

import pytest

from portal.torture import plants
from scheduler.engine.board import core
from scheduler.engine.policy import Policy
from scheduler.loop.cycle import Scheduler
from scheduler.models import Allocation, SchedulerLease
from tests.loop.otherwise import two_pools
from tests.scenes import NOON, at, submit

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_job_starts_in_a_pool_that_it_has_not_named(
    monkeypatch, root, alice, project, is_planted
):
    two_pools(root)
    SchedulerLease.objects.update(expires_at=NOON)
    monkeypatch.setattr(core.Board, "__init__", core.Board.__init__)
    if is_planted:
        plants.PLANTS["pool-unasked"].on_server()
    for number in range(3):
        submit(alice, project, now=at(number), pool="default", gpus_per_node=2)
    Scheduler(holder="test", policy=Policy(preempts=False)).run_cycle(at(10))
    held = Allocation.objects.filter(device__node__pool__name="spare", released_at=None)
    assert held.exists() is is_planted
