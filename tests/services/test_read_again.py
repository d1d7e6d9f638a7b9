"""Stops that time brings about: what was read before the lock is read again under it."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction

from scheduler.conf import load_conf
from scheduler.models import Session
from scheduler.services import reaping
from scheduler.services.bookings import (
    closing,
    edit_booking,
    end_booked_jobs,
    plan_booking,
    release_unused,
)
from scheduler.services.changing.limits import set_time_limit
from scheduler.services.errors import Conflict
from scheduler.services.sessions import idling, keep_session, stop_idle_sessions
from scheduler.states import AttemptState
from tests import scenes
from tests.locks import just_before, wait_until_somebody_waits
from tests.scenes import NOON, at, running, start, submit, sync

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


@pytest.fixture
def node(cluster):
    return cluster.node(1)


def a_session(alice, project, node):
    job = submit(alice, project, script="", session={"app": "shell", "idle_stop": "10m"})
    attempt = start(job, node)
    sync(node, running(attempt))
    type(attempt).objects.filter(pk=attempt.pk).update(started_at=NOON)
    return Session.objects.get(job=job), attempt


def state_of(attempt) -> str:
    attempt.refresh_from_db()
    return attempt.state


def test_a_session_that_was_just_kept_is_not_stopped(monkeypatch, alice, project, node):
    session, attempt = a_session(alice, project, node)
    assert stop_idle_sessions(now=at(500)) == 0  # told
    just_before(
        monkeypatch,
        idling,
        "last_work",
        lambda: keep_session(actor=alice, session=session, now=at(700)),
    )
    assert stop_idle_sessions(now=at(700)) == 0
    assert state_of(attempt) == AttemptState.RUNNING
    assert [stop_idle_sessions(now=at(moment)) for moment in (1181, 1301)] == [0, 1]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_who_keeps_a_session_that_is_being_stopped_is_told(alice, project, node):
    session, attempt = a_session(alice, project, node)
    assert stop_idle_sessions(now=at(500)) == 0  # told
    said = []

    def keep():
        try:
            keep_session(actor=alice, session=session, now=at(700))
        except Conflict as refused:
            said.append(refused.code)
        finally:
            connections.close_all()

    other = threading.Thread(target=keep)
    with transaction.atomic():
        assert stop_idle_sessions(now=at(700)) == 1
        other.start()
        wait_until_somebody_waits()
    other.join()
    assert (said, state_of(attempt)) == (["not_running"], AttemptState.STOPPING)


def test_a_booking_that_a_job_has_just_come_into_stays(monkeypatch, lead, project, cluster):
    booking = a_booking(lead, project, cluster)
    just_before(
        monkeypatch,
        closing,
        "locked",
        lambda: submit(lead, project, booking=str(booking.pk), now=NOON),
    )
    assert release_unused(now=at(HOUR + 900)) == 0
    booking.refresh_from_db()
    assert booking.closed_as == ""


def a_booking(lead, project, cluster):
    return plan_booking(
        actor=lead,
        owner=project,
        pool=cluster.pool,
        nodes=1,
        from_at=at(HOUR),
        until_at=at(3 * HOUR),
        now=NOON,
    )


def test_jobs_of_a_booking_that_was_just_made_longer_go_on(
    monkeypatch, lead, project, cluster, node
):
    booking = a_booking(lead, project, cluster)
    jobs = [submit(lead, project, booking=str(booking.pk)) for _ in range(2)]
    attempt = start(jobs[0], node, now=at(HOUR + 1))

    def longer():
        changes = {"until_at": at(5 * HOUR)}
        edit_booking(actor=lead, booking=booking, changes=changes, now=at(2 * HOUR))

    just_before(monkeypatch, closing, "locked_live_attempt", longer)
    assert end_booked_jobs(now=at(3 * HOUR)) == 0
    assert state_of(attempt) == AttemptState.ASSIGNED


def test_jobs_that_wait_for_such_a_booking_wait_on(monkeypatch, lead, project, cluster):
    booking = a_booking(lead, project, cluster)
    job = submit(lead, project, booking=str(booking.pk))

    def longer():
        changes = {"until_at": at(5 * HOUR)}
        edit_booking(actor=lead, booking=booking, changes=changes, now=at(2 * HOUR))

    just_before(monkeypatch, closing, "locked_waiting", longer)
    assert end_booked_jobs(now=at(3 * HOUR)) == 0
    job.refresh_from_db()
    assert job.state == "queued"


def test_an_assignment_that_was_just_taken_up_is_not_taken_back(monkeypatch, alice, project, node):
    attempt = start(submit(alice, project), node)
    late = at(load_conf().start_deadline_s + 1)
    just_before(
        monkeypatch,
        reaping,
        "locked_live_attempt",
        lambda: sync(node, running(attempt), now=late),
    )
    assert reaping.revoke_unaccepted(now=late) == 0
    assert state_of(attempt) == AttemptState.RUNNING


def test_a_job_that_was_just_given_more_time_goes_on(monkeypatch, alice, project, node):
    job = submit(alice, project, time_limit="1m")
    attempt = start(job, node)
    sync(node, running(attempt), now=at(2), protocol=3)
    type(attempt).objects.filter(pk=attempt.pk).update(started_at=at(2))
    just_before(
        monkeypatch,
        reaping,
        "locked_live_attempt",
        lambda: set_time_limit(actor=alice, job=job, time_limit_s=600, now=at(130)),
    )
    assert reaping.stop_overdue(now=at(130)) == 0
    assert state_of(attempt) == AttemptState.RUNNING
    assert reaping.stop_overdue(now=at(700)) == 1
