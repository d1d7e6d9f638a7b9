"""Somebody wants a job to stop that is being stopped over a fault of its node already."""

from __future__ import annotations

import pytest

from scheduler.models import Device, UsageEntry
from scheduler.services.changing.by_hand import pause_job
from scheduler.services.jobs import cancel_job
from scheduler.states import EndReason, end_sentence
from scheduler.wire.messages import TroubleReport
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("stop", "state"), [(cancel_job, "cancelled"), (pause_job, "held")])
def test_the_job_obeys_and_pays_nothing(root, alice, project, stop, state):
    node = scenes.build_cluster(root).node(1)
    job = submit(alice, project)
    attempt = start(job, node)
    sync(node, running(attempt))
    lost = TroubleReport("lost", Device.objects.get(index=0).uuid, "", NOON.timestamp(), attempt.pk)
    node.refresh_from_db()
    sync(node, now=at(5), troubles=(lost,))
    job.refresh_from_db()
    stop(actor=alice, job=job, now=at(6))
    sync(node, ended(attempt, reason=EndReason.CANCELLED_BY_USER, exit_code=143), now=at(100))
    job.refresh_from_db()
    attempt.refresh_from_db()
    assert (job.state, attempt.end_reason) == (state, EndReason.DEVICE_FAILED)
    assert sum(UsageEntry.objects.values_list("gpu_seconds", flat=True)) == 0
    if state == "cancelled":
        assert end_sentence(job.end_reason, job.end_facts) == "Cancelled by Alice."
