"""Devices kept for a job: reserved idle time of its project until it starts or gives them up."""

from __future__ import annotations

import pytest

from scheduler.models import Allocation, DeviceSegment
from scheduler.services.jobs import cancel_job
from scheduler.services.preempting.claims import drop_claims
from tests.loop.test_making_room import full, preempted, scheduler, turn
from tests.scenes import NOON, at, submit

pytestmark = pytest.mark.django_db
__all__ = ["full", "scheduler"]


def test_what_is_kept_and_not_used_is_reserved_for_who_it_is_kept_for(
    scheduler, full, alice, carol, project, other_project
):
    """Reserved idle time of the beneficiary's project, until it starts or gives the room up."""
    urgent = submit(carol, other_project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    preempted(full[1], at(105))
    turn(scheduler, 109)
    attempt = urgent.attempts.get()
    devices = Allocation.objects.filter(placement__attempt=attempt).values("device")
    for device in devices:
        told = DeviceSegment.objects.filter(device=device["device"]).order_by("id")
        assert [(s.bucket, s.project_id, s.start_s - int(NOON.timestamp())) for s in told] == [
            ("free", None, 0),
            ("overhead", project.pk, 1),
            ("run", project.pk, 3),
            ("overhead", project.pk, 100),
            ("reserved_idle", other_project.pk, 105),
            ("overhead", other_project.pk, 109),
        ]


def test_a_room_given_up_is_free_again(scheduler, full, alice, carol, other_project):
    urgent = submit(carol, other_project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    preempted(full[1], at(105))
    cancel_job(actor=carol, job=urgent, now=at(107))
    drop_claims(now=at(108))
    kept = DeviceSegment.objects.filter(bucket="reserved_idle")
    assert {(s.start_s, s.end_s) for s in kept} == {
        (int(at(105).timestamp()), int(at(108).timestamp()))
    }
