"""A start that is cut off at any of its statements leaves nothing, or all of it."""

from __future__ import annotations

import pytest
from django.db import connection

from scheduler.models import Allocation, Attempt, DeviceSegment, JobEvent, Placement
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from tests import scenes
from tests.scenes import TOKEN, at, submit

pytestmark = pytest.mark.django_db
WRITTEN = (Attempt, Placement, Allocation, DeviceSegment, JobEvent)


class _KilledError(BaseException):
    """As if the process had ended just then."""


class _Killer:
    """Lets so many statements through; what frames a transaction does not count."""

    def __init__(self, lets_through: int) -> None:
        self._left = lets_through

    def __call__(self, execute, sql, *words):
        if not sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            if not self._left:
                self._left = -1
                raise _KilledError
            self._left -= 1
        return execute(sql, *words)


def test_a_gang_starts_whole_or_not_at_all_wherever_it_is_cut_off(root, alice, project):
    cluster = scenes.build_cluster(root, nodes=2, gpus=2)
    job = submit(alice, project, nodes=2, gpus_per_node=2)
    on = [
        PlacedOn(node.pk, rank, tuple(node.devices.values_list("pk", flat=True)), 1, 2048)
        for rank, node in enumerate((cluster.node(1), cluster.node(2)))
    ]
    before = [table.objects.count() for table in WRITTEN]
    for cut_at in range(100):
        try:
            with connection.execute_wrapper(_Killer(cut_at)):
                started = start_attempts([Start(job.pk, tuple(on))], lease_token=TOKEN, now=at(1))
            break
        except _KilledError:
            job.refresh_from_db()
            assert job.state == "queued"
            assert [table.objects.count() for table in WRITTEN] == before
    assert (started, cut_at > 8) == ([job.pk], True)
    # An attempt with two placements on four devices, told once.
    more = [table.objects.count() - was for table, was in zip(WRITTEN, before, strict=True)]
    assert more == [1, 2, 4, 4, 1]
