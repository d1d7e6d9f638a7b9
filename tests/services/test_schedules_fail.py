"""A schedule that cannot be carried out, for a reason that is no refusal."""

from __future__ import annotations

import logging

import pytest
from django.db import OperationalError

from accounts.models import AuditEvent
from scheduler.models import Job, Notification
from scheduler.services.recurring import pausing, running
from scheduler.services.recurring.keeping import change_schedule, resume_schedule
from scheduler.services.recurring.running import submit_due
from tests import scenes
from tests.recurring import schedule_of
from tests.scenes import at

pytestmark = pytest.mark.django_db

TEN = 600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


@pytest.fixture
def failing(monkeypatch):
    """From now on a submit fails with this."""

    def fail_with(error):
        def fail(**_):
            raise error

        monkeypatch.setattr(running, "submit_job", fail)

    return fail_with


def looks(times, *, first=TEN):
    for minute in range(times):
        submit_due(now=at(first + 60 * minute))


def test_it_pauses_itself_after_some_tries_and_its_owner_is_told_why(
    cluster, alice, project, failing, caplog
):
    caplog.set_level(logging.CRITICAL)
    schedule = schedule_of(alice, project)
    failing(KeyError("a value of hers"))
    looks(4)
    schedule.refresh_from_db()
    assert schedule.paused_at is None and schedule.next_due_at == at(TEN)
    looks(3, first=TEN + 240)
    schedule.refresh_from_db()
    assert (schedule.paused_at, schedule.next_due_at) == (at(TEN + 240), None)
    assert "5 times in a row it could not be carried out" in schedule.pause_reason
    assert "(KeyError)" in schedule.pause_reason and "hers" not in schedule.pause_reason
    news = Notification.objects.get(kind="schedule_trouble")
    assert (news.person, news.title) == (alice, "Nightly is paused")
    run = schedule.runs.get()
    assert (run.due_at, run.outcome, run.said) == (at(TEN), "skipped", schedule.pause_reason)
    told = AuditEvent.objects.filter(subject_kind="schedule").order_by("pk")
    verbs = ["create", *["trouble"] * 5, "pause"]
    assert [one.action.partition(".")[2] for one in told] == verbs
    # Resumed it has as many tries again.
    resume_schedule(actor=alice, schedule=schedule, now=at(2 * TEN - 1))
    looks(4, first=2 * TEN)
    schedule.refresh_from_db()
    assert schedule.paused_at is None


def test_one_that_works_in_the_end_has_lost_nothing(cluster, alice, project, failing, monkeypatch):
    schedule = schedule_of(alice, project)
    real = running.submit_job
    failing(ValueError())
    looks(4)
    change_schedule(actor=alice, schedule=schedule, changes={"name": "Other"}, now=at(TEN + 200))
    looks(4, first=TEN + 240)
    schedule.refresh_from_db()
    assert schedule.paused_at is None
    monkeypatch.setattr(running, "submit_job", real)
    assert submit_due(now=at(TEN + 500)) == 1
    assert (schedule.runs.get().due_at, Job.objects.count()) == (at(TEN), 1)


@pytest.mark.parametrize("error", [OperationalError("away"), OSError("full"), MemoryError()])
def test_what_is_no_schedules_own_counts_for_none(cluster, alice, project, failing, error):
    schedule = schedule_of(alice, project)
    failing(error)
    looks(9)
    schedule.refresh_from_db()
    assert schedule.paused_at is None and schedule.next_due_at == at(TEN)
    assert not AuditEvent.objects.filter(action="schedule.trouble").exists()


def test_others_go_on_where_not_even_the_failure_can_be_written_down(
    cluster, alice, bob, project, monkeypatch
):
    schedule_of(alice, project)
    his = schedule_of(bob, project)
    real = running.submit_job

    def fail_hers(*, actor, **more):
        return 1 / 0 if actor == alice else real(actor=actor, **more)

    monkeypatch.setattr(running, "submit_job", fail_hers)
    monkeypatch.setattr(pausing, "record", lambda *_, **__: 1 / 0)
    assert submit_due(now=at(TEN)) == 1
    assert his.runs.get().outcome == "submitted"
