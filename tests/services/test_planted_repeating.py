"""Planted bugs in schedules still reach what they break, and the nightly check finds in its rows
what rows tell of; all of them are found by `manage.py torture`."""

from __future__ import annotations

import pytest
from django.db import IntegrityError

from portal.torture import plants
from scheduler.models import Job
from scheduler.services.invariants import check_invariants
from scheduler.services.recurring import keeping, running
from scheduler.services.recurring.keeping import pause_schedule
from tests import scenes
from tests.recurring import schedule_of
from tests.scenes import at, start, sync

pytestmark = pytest.mark.django_db
TEN = 600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=4)


@pytest.fixture
def planted(monkeypatch):
    """Puts a bug in for the length of a test."""
    places = [(running, name) for name in ("carry_out", "_go", "_make_way")]
    for owner, name in [*places, (keeping, "set_paused")]:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    return lambda name: plants.PLANTS[name].on_server()


def found():
    breaks = check_invariants(now=at(3 * TEN)).breaks
    return {words.partition(":")[0] for words in breaks}


def test_a_due_time_that_brings_two_jobs(cluster, alice, project, planted):
    planted("due-doubled")
    schedule = schedule_of(alice, project)
    with pytest.raises(IntegrityError):  # the database refuses it unless the plant takes that away
        running.carry_out(schedule.pk, now=at(TEN))


def test_a_due_time_of_which_nothing_comes(cluster, alice, project, planted):
    planted("due-forgotten")
    schedule = schedule_of(alice, project)
    for turn in range(1, 4):
        running.submit_due(now=at(turn * TEN))
    schedule.refresh_from_db()
    assert (schedule.runs.count(), schedule.next_due_at) == (2, at(4 * TEN))


def test_a_job_that_does_not_wait_for_its_turn(cluster, alice, project, planted):
    planted("turn-untaken")
    schedule_of(alice, project)
    for turn in (1, 2):
        running.submit_due(now=at(turn * TEN))
        job = Job.objects.latest("pk")
        start(job, cluster.node(turn), now=at(turn * TEN + 5))
        sync(cluster.node(turn), now=at(turn * TEN + 6))
    assert "I35" in found()


def test_a_pause_that_does_not_hold(cluster, alice, project, planted):
    planted("pause-ignored")
    schedule = schedule_of(alice, project)
    pause_schedule(actor=alice, schedule=schedule, now=at(60))
    assert running.submit_due(now=at(TEN)) == 1 and "I35" in found()
