"""Bookings in the loop: from rows to a plan and back."""

from __future__ import annotations

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.loop.cycle import Scheduler
from scheduler.loop.loading import load_snapshot
from scheduler.models import Booking, Node
from scheduler.services.bookings import cancel_booking, plan_booking
from scheduler.states import NodeState
from tests import scenes
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def scheduler(cluster):
    from scheduler.models import SchedulerLease

    SchedulerLease.objects.all().delete()
    return Scheduler("test")


def book(actor, project, cluster, **more):
    wanted = {"nodes": 1, "from_at": at(HOUR), "until_at": at(3 * HOUR), **more}
    return plan_booking(actor=actor, owner=project, pool=cluster.pool, now=NOON, **wanted)


def cycle(scheduler, seconds):
    """A round at that moment, on nodes that have been heard from."""
    Node.objects.update(last_seen_at=at(seconds), agent_id="agent-1")
    return scheduler.run_cycle(at(seconds))


def state(job):
    job.refresh_from_db()
    return job.state


def test_others_wait_and_the_booked_job_starts_when_it_begins(
    lead, alice, project, cluster, scheduler
):
    booking = book(lead, project, cluster, nodes=2)
    mine = scenes.submit(alice, project, booking=str(booking.pk), time_limit="10h")
    other = scenes.submit(alice, project, time_limit="2h")
    short = scenes.submit(alice, project, time_limit="30m")
    cycle(scheduler, 1)
    assert [state(job) for job in (mine, other, short)] == ["queued", "queued", "starting"]
    assert (mine.wait_reason, other.wait_reason) == ("reservation_conflict",) * 2
    assert other.wait_facts["fits_with_limit_s"] == HOUR - 61
    cycle(scheduler, HOUR)
    assert [state(job) for job in (mine, other)] == ["starting", "queued"]
    held = load_snapshot(at(HOUR + 1)).snapshot.held
    assert held.booking.max() == 0
    cycle(scheduler, 3 * HOUR - 60)
    assert state(mine) == "stopping"


def test_a_booking_moves_off_a_lost_node_and_its_row_says_where_it_is(
    lead, project, cluster, scheduler
):
    booking = book(lead, project, cluster)
    cycle(scheduler, 1)
    first = Booking.objects.get(pk=booking.pk).node_ids
    Node.objects.filter(pk__in=first).update(state=NodeState.DRAINED)
    cycle(scheduler, 2)
    (second,) = Booking.objects.get(pk=booking.pk).node_ids
    assert [second] != first
    Node.objects.update(state=NodeState.READY)
    cycle(scheduler, 3)
    assert Booking.objects.get(pk=booking.pk).node_ids == [second]


def test_a_job_of_a_cancelled_booking_starts_nowhere_else(lead, alice, project, cluster):
    booking = book(lead, project, cluster)
    scenes.submit(alice, project, booking=str(booking.pk))
    cancel_booking(actor=lead, booking=booking, reason="off", now=at(60))
    plan = plan_cycle(load_snapshot(at(61)).snapshot)
    assert not plan.starts
    (wait,) = plan.iter_waits()
    assert str(wait.reason) == "reservation_conflict"


def test_loading_takes_one_statement_more_however_many_are_booked(
    lead, project, cluster, django_assert_max_num_queries
):
    with django_assert_max_num_queries(40) as before:
        load_snapshot(at(1))
    for hour in range(4):
        book(lead, project, cluster, from_at=at(hour * HOUR), until_at=at((hour + 1) * HOUR))
    with django_assert_max_num_queries(len(before)):
        assert len(load_snapshot(at(1)).snapshot.bookings.id) == 4
