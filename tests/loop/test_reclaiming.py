"""Owners take back what they lent, through whole cycles."""

from __future__ import annotations

import pytest

from scheduler.models import Attempt
from scheduler.services.sharing.limits import set_quota
from scheduler.states import JobState, WaitReason, end_sentence
from tests.loop.test_making_room import preempted, scheduler, turn
from tests.scenes import at, running, submit, sync

pytestmark = pytest.mark.django_db
__all__ = ["scheduler"]


def test_an_owner_takes_back_what_it_lent_and_both_sides_say_so(
    scheduler, cluster, alice, carol, root, team, project, other_project
):
    set_quota(actor=root, owner=team, guaranteed=2)
    borrowed = [submit(carol, other_project, gpus_per_node=2, name=f"b-{n}") for n in (1, 2)]
    turn(scheduler, 1)
    for job in borrowed:
        attempt = job.attempts.get()
        sync(attempt.placements.get().node, running(attempt), now=at(3))
    Attempt.objects.update(started_at=at(3))
    Attempt.objects.filter(job=borrowed[1]).update(started_at=at(4))
    owner = submit(alice, project, gpus_per_node=2, now=at(10))
    assert turn(scheduler, 11).stopped == 0
    assert turn(scheduler, 65).stopped == 1
    owner.refresh_from_db()
    assert owner.wait_reason == WaitReason.PREEMPTION_IN_PROGRESS
    ordered = owner.events.get(kind="room_ordered")
    assert ordered.detail["given_back_to"] == team.slug
    (victim,) = [job for job in borrowed if job.pk in ordered.detail["victims"]]
    preempted(victim, at(66))
    assert turn(scheduler, 67).started == 1
    victim.refresh_from_db()
    owner.refresh_from_db()
    assert (victim.state, owner.state) == (JobState.QUEUED, JobState.STARTING)
    ended_attempt = victim.attempts.get()
    words = end_sentence(ended_attempt.end_reason, ended_attempt.end_facts)
    assert f"room for job {owner.pk} (given back to {team.slug})" in words
    # Its own two are in use now; beyond them it waits like others.
    submit(alice, project, gpus_per_node=2, now=at(68))
    assert turn(scheduler, 5000).stopped == 0
