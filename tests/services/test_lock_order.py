"""Whoever ends waiting tasks of a throttled array, while its room is given to the next of them."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, connections, transaction

from scheduler.models import JobSet
from scheduler.services.bookings import end_booked_jobs, plan_booking
from scheduler.services.holding.moves import reconsider
from scheduler.services.jobs import cancel_job
from scheduler.services.people.leaving import end_access
from scheduler.services.sets import cancel_set
from tests import scenes
from tests.locks import wait_until_somebody_waits
from tests.scenes import NOON, at, submit

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time"),
]

OVER = at(10 * 3600)


class Reconsidering(threading.Thread):
    """Holds the set, as `reconsider` does first, until somebody waits; then locks what is held."""

    def __init__(self, job_set: JobSet) -> None:
        super().__init__()
        self.job_set, self.has_set = job_set, threading.Event()
        self.held = list(job_set.tasks.filter(state="held").values_list("pk", flat=True))
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            with transaction.atomic():
                JobSet.objects.select_for_update().get(pk=self.job_set.pk)
                self.has_set.set()
                wait_until_somebody_waits()
                reconsider(self.held, now=at(1))
        except Exception as problem:
            self.problem = problem
        finally:
            connections.close_all()


@pytest.fixture
def array(root, alice, lead, project):
    """Ten tasks in a booking, two at a time, so that eight are held."""
    cluster = scenes.build_cluster(root, gpus=4)
    booking = plan_booking(
        actor=lead,
        owner=project,
        pool=cluster.pool,
        nodes=1,
        from_at=at(3600),
        until_at=at(9 * 3600),
        now=NOON,
    )
    return submit(alice, project, array="0-9%2", booking=str(booking.pk)).job_set


ENDS = {
    "the array": lambda array, root: cancel_set(actor=root, job_set=array),
    "its last task": lambda array, root: cancel_job(actor=root, job=array.tasks.get(array_index=9)),
    "all of who leaves": lambda array, root: end_access(
        actor=root, user=array.owner, reason="left", cancel_jobs=True
    ),
    "what is left in its booking": lambda array, root: end_booked_jobs(now=OVER),
}


@pytest.mark.parametrize("ended", ENDS)
def test_an_end_waits_for_the_set_before_it_locks_a_task(array, root, ended):
    other = Reconsidering(array)
    assert len(other.held) == 8
    other.start()
    assert other.has_set.wait(30)
    ENDS[ended](array, root)
    other.join(60)
    assert other.problem is None
    gone = array.tasks.filter(state="cancelled").count()
    assert gone == (1 if ended == "its last task" else 10)
