"""A cluster whose lease is free for the test's own scheduler."""

import pytest

from scheduler.loop.cycle import Scheduler
from scheduler.models import SchedulerLease
from tests import scenes


@pytest.fixture
def cluster(root):
    """Pool `default`, nodes `n1` and `n2` with two GPUs each; nobody schedules."""
    made = scenes.build_cluster(root, nodes=2, gpus=2)
    SchedulerLease.objects.update(expires_at=scenes.NOON)
    return made


@pytest.fixture
def scheduler(cluster):
    """A scheduler without its lease yet."""
    return Scheduler(holder="test")
