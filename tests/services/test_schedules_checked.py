"""The nightly check of schedules: silent where all went well, and each bend is found."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import User
from scheduler.models import Attempt, Job, JobSchedule, JobScheduleRun
from scheduler.services.invariants import check_invariants
from scheduler.services.jobs import cancel_job
from scheduler.services.recurring.keeping import pause_schedule
from scheduler.services.recurring.running import submit_due
from tests import scenes
from tests.recurring import schedule_of
from tests.scenes import at, ended, running, start, sync

pytestmark = pytest.mark.django_db
TEN = 600
LATER = at(5 * TEN + 30)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=4)


def runs_for(node, job, *, now, lasts):
    attempt = start(job, node, now=at(now))
    sync(node, running(attempt), now=at(now + 1))
    sync(node, ended(attempt), now=at(now + lasts))


@pytest.fixture
def house(cluster, alice, project):
    """One that skips while its job goes on, one that replaces an array, one that is paused."""
    skips = schedule_of(alice, project, name="skips")
    replaces = schedule_of(
        alice, project, name="replaces", overlap="replace", job={"array": "0-1", "name": "many"}
    )
    rests = schedule_of(alice, project, name="rests", rule="@hourly")
    submit_due(now=at(TEN))
    runs_for(cluster.node(2), skips.runs.get().job, now=TEN + 10, lasts=100)
    for turn, task in enumerate(Job.objects.filter(name="many").order_by("pk")):
        runs_for(cluster.node(1), task, now=TEN + 10 + 100 * turn, lasts=90)
    submit_due(now=at(2 * TEN))
    second = replaces.runs.latest("due_at").job
    runs_for(cluster.node(1), second, now=2 * TEN + 10, lasts=100)
    submit_due(now=at(3 * TEN))
    pause_schedule(actor=alice, schedule=rests, now=at(4 * TEN))
    for job in Job.objects.filter(state="queued"):
        cancel_job(actor=alice, job=job, now=at(4 * TEN))
    JobSchedule.objects.exclude(pk=rests.pk).update(next_due_at=at(5 * TEN))
    return cluster


def found(**asked):
    return list(check_invariants(now=LATER, **asked).breaks)


def run_of(name, which="latest"):
    return getattr(JobScheduleRun.objects.filter(schedule__name=name), which)("due_at")


def is_silent(_):
    JobScheduleRun.objects.filter(outcome="skipped").update(said="")


def lost_its_job(_):
    JobScheduleRun.objects.filter(pk=run_of("skips", "earliest").pk).update(job=None)


def is_anothers(_):
    JobSchedule.objects.filter(name="skips").update(owner=User.objects.get(username="root"))


def nobody_looked(_):
    JobSchedule.objects.filter(name="skips").update(next_due_at=at(3 * TEN))


def paused_and_due(_):
    JobSchedule.objects.filter(name="rests").update(next_due_at=LATER)


def paused_and_submits(_):
    schedule = JobSchedule.objects.get(name="rests")
    facts = {"due_at": at(4 * TEN), "at": at(4 * TEN + 5), "outcome": "skipped", "said": "so"}
    JobScheduleRun.objects.create(schedule=schedule, **facts)


def ran_together(_):
    """The second of a schedule began while a task of the first did not let go."""
    first = Attempt.objects.filter(job__name="many").order_by("pk")[1]
    Attempt.objects.filter(pk=first.pk).update(ended_at=at(2 * TEN + 20))
    Job.objects.filter(pk=first.job_id).update(ended_at=at(2 * TEN + 20))


def test_a_sound_house_breaks_nothing_and_there_is_something_to_look_at(house):
    check = check_invariants(now=LATER)
    assert check.breaks == []
    assert (check.looked_at["I34"], check.looked_at["I35"]) == (3 + 6, 1 + 4)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("I34", is_silent),
        ("I34", lost_its_job),
        ("I34", is_anothers),
        ("I34", nobody_looked),
        ("I35", paused_and_due),
        ("I35", paused_and_submits),
        ("I35", ran_together),
    ],
)
def test_what_was_not_kept_is_found(house, name, spoil):
    spoil(house)
    assert {words.partition(":")[0] for words in found()} == {name}


def test_only_what_went_on_since_then_is_read(house):
    ran_together(house)
    assert found(since=at(2 * TEN - 30))
    assert not found(since=LATER - timedelta(seconds=1))
