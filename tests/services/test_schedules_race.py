"""Somebody is let out while a schedule of theirs is carried out: neither waits for ever."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction

from accounts.models import User
from scheduler.models import JobSchedule
from scheduler.services.people.leaving import end_access
from tests import scenes
from tests.locks import wait_until_somebody_waits
from tests.recurring import schedule_of
from tests.scenes import at

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


def test_who_is_let_out_meanwhile_keeps_nobody_from_their_locks(root, alice, project):
    """As `carry_out` does for a job of a group: the schedule first, then its owner."""
    scenes.build_cluster(root)
    schedule = schedule_of(alice, project, job={"group": "eval"})
    has_schedule, problems = threading.Event(), list[Exception]()

    def carry_out() -> None:
        try:
            with transaction.atomic():
                JobSchedule.objects.select_for_update().get(pk=schedule.pk)
                has_schedule.set()
                wait_until_somebody_waits()
                User.objects.select_for_update(no_key=True).get(pk=alice.pk)
        except Exception as problem:
            problems.append(problem)
        finally:
            connections.close_all()

    thread = threading.Thread(target=carry_out)
    thread.start()
    assert has_schedule.wait(10)
    left = end_access(actor=root, user=alice, reason="left", cancel_jobs=False, now=at(5))
    thread.join()
    assert (problems, left.schedules) == ([], 1)
