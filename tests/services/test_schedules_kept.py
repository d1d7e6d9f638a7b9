"""Schedules: what they may say, who may do what with them, and what is forgotten."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent
from scheduler.models import Job
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound, StaleVersion
from scheduler.services.recurring import keeping
from scheduler.services.recurring.keeping import (
    change_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
)
from scheduler.services.recurring.running import prune_schedule_runs, submit_due
from scheduler.spec import SpecInvalid
from tests import scenes
from tests.recurring import schedule_of
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db

TEN = 600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


@pytest.mark.parametrize(
    ("terms", "field", "words"),
    [
        ({"name": " "}, "name", "must not be empty"),
        ({"rule": "61 * * * *"}, "rule", "write 0 to 59"),
        ({"zone": "Mars"}, "zone", "Europe/Berlin"),
        ({"overlap": "both"}, "overlap", "skip, queue, replace"),
        ({"most_open": 0}, "most_open", "1 to 20 jobs"),
        ({"late_within_s": 90000}, "late_within_s", "0 to 86400 seconds"),
        ({"pause_after": 101}, "pause_after", "0 to 100 failures"),
        ({"ends_at": NOON}, "ends_at", "later moment"),
        ({"rule": "0 0 1 1 *", "ends_at": at(60)}, "ends_at", "never due"),
    ],
)
def test_bad_terms_are_refused_by_field(cluster, alice, project, terms, field, words):
    with pytest.raises(Invalid, match=words) as refused:
        schedule_of(alice, project, **terms)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "job",
    [
        {"begin": "2026-12-31T08:00:00Z"},
        {"finish_by": "2026-12-31T08:00:00Z"},
        {"depends_on": "singleton"},
        {"hold": True},
        {"gpus_per_node": 9},
    ],
)
def test_a_job_that_cannot_come_again_is_refused(cluster, alice, project, job):
    with pytest.raises(SpecInvalid) as refused:
        schedule_of(alice, project, job=job)
    assert refused.value.problems[0].field in job


def test_who_may_do_what(cluster, root, alice, bob, carol, lead, project):
    schedule = schedule_of(alice, project)
    for act in (pause_schedule, delete_schedule, resume_schedule):
        with pytest.raises(NotFound):
            act(actor=carol, schedule=schedule)
        with pytest.raises(Forbidden):
            act(actor=bob, schedule=schedule)
    with pytest.raises(Invalid, match="give a reason"):
        pause_schedule(actor=lead, schedule=schedule)
    paused = pause_schedule(actor=lead, schedule=schedule, reason="too dear", now=at(5))
    assert (paused.paused_by, paused.pause_reason) == (lead, "too dear")
    assert submit_due(now=at(TEN)) == 0
    with pytest.raises(Forbidden):
        resume_schedule(actor=lead, schedule=schedule)
    resume_schedule(actor=alice, schedule=schedule, now=at(TEN + 5))
    delete_schedule(actor=root, schedule=schedule, reason="not needed")
    actions = AuditEvent.objects.filter(subject_kind="schedule").order_by("pk")
    assert [one.action.partition(".")[2] for one in actions] == [
        *("create", "pause", "resume", "delete")
    ]


def test_what_is_changed_holds_from_the_next_time(cluster, alice, project):
    schedule = schedule_of(alice, project)
    changed = change_schedule(
        actor=alice, schedule=schedule, changes={"rule": "@hourly"}, version=1, now=at(5)
    )
    assert (changed.next_due_at, changed.version) == (at(3600), 2)
    with pytest.raises(StaleVersion):
        change_schedule(actor=alice, schedule=schedule, changes={}, version=1)


def test_a_time_that_came_just_before_a_change_is_not_lost(cluster, alice, project):
    schedule = schedule_of(alice, project)
    change_schedule(actor=alice, schedule=schedule, changes={"name": "Other"}, now=at(TEN + 20))
    assert submit_due(now=at(TEN + 40)) == 1
    assert schedule.runs.get().due_at == at(TEN)
    # Its new dates may leave it out.
    later = {"starts_at": at(5 * TEN)}
    change_schedule(actor=alice, schedule=schedule, changes=later, now=at(2 * TEN + 20))
    schedule.refresh_from_db()
    assert schedule.next_due_at == at(5 * TEN)


def test_a_time_that_came_just_before_a_pause_is_skipped_and_said(cluster, alice, project):
    schedule = schedule_of(alice, project)
    pause_schedule(actor=alice, schedule=schedule, now=at(TEN + 20))
    run = schedule.runs.get()
    assert (run.due_at, run.outcome) == (at(TEN), "skipped")
    assert run.said == "The schedule was paused before anybody looked."


def test_nobody_has_more_than_so_many(cluster, alice, project, monkeypatch):
    monkeypatch.setattr(keeping, "MOST_OF_PERSON", 1)
    schedule_of(alice, project)
    with pytest.raises(Conflict, match="You have 1 schedules already"):
        schedule_of(alice, project)


def test_what_came_of_times_is_forgotten_and_its_jobs_stay(cluster, alice, project):
    schedule = schedule_of(alice, project)
    submit_due(now=at(TEN))
    assert prune_schedule_runs(now=at(TEN)) == 0
    assert prune_schedule_runs(now=at(91 * 86400)) == 1
    assert (Job.objects.count(), schedule.runs.count()) == (1, 0)


def test_of_a_group_none_queue(cluster, alice, project):
    with pytest.raises(Invalid, match="one waits at most") as refused:
        schedule_of(alice, project, overlap="queue", job={"group": "eval"})
    assert refused.value.field == "overlap"
    schedule = schedule_of(alice, project, job={"group": "eval"})
    with pytest.raises(Invalid, match="choose skip or replace"):
        change_schedule(actor=alice, schedule=schedule, changes={"overlap": "queue"}, now=NOON)
