"""The planted bug in pools still reaches what it breaks; `manage.py torture` finds it."""

from __future__ import annotations

import pytest

from portal.torture import plants
from scheduler.engine.policy import Policy
from scheduler.loop import cycle
from scheduler.loop.cycle import Scheduler
from scheduler.models import Allocation, Job, SchedulerLease
from scheduler.services.changing import pools
from tests.loop.otherwise import two_pools
from tests.scenes import NOON, at, submit

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_job_goes_to_a_pool_that_it_has_not_named(monkeypatch, root, alice, project, is_planted):
    two_pools(root)
    SchedulerLease.objects.update(expires_at=NOON)
    monkeypatch.setattr(cycle, "go_elsewhere", cycle.go_elsewhere)
    monkeypatch.setattr(pools, "_may_go", pools._may_go)
    if is_planted:
        plants.PLANTS["pool-unasked"].on_server()
    asked = {"pool": "default", "gpus_per_node": 2}
    jobs = [submit(alice, project, now=at(number), **asked) for number in range(3)]
    scheduler = Scheduler(holder="test", policy=Policy(preempts=False))
    for number in range(3):
        scheduler.run_cycle(at(10 + number))
    names = {job.pool.name for job in Job.objects.filter(pk__in=[job.pk for job in jobs])}
    assert names == ({"default", "spare"} if is_planted else {"default"})
    held = Allocation.objects.filter(device__node__pool__name="spare", released_at=None)
    assert held.exists() is is_planted
