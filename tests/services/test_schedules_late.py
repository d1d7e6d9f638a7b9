"""Due times of schedules that nobody looked at in time: made up for once, or missed and told."""

from __future__ import annotations

import pytest

from scheduler.models import Notification
from scheduler.services.recurring.running import submit_due
from tests import scenes
from tests.recurring import schedule_of
from tests.scenes import at

pytestmark = pytest.mark.django_db

TEN = 600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def test_after_a_pause_of_the_portal_the_last_time_stands_for_all(cluster, alice, project):
    schedule = schedule_of(alice, project, late_within_s=900)
    assert submit_due(now=at(5 * TEN + 300)) == 1
    run = schedule.runs.get()
    assert (run.due_at, run.outcome) == (at(5 * TEN), "submitted")
    assert "every time missed since" in run.said


def test_a_skip_says_for_which_times_it_stands(cluster, alice, project):
    schedule = schedule_of(alice, project)
    submit_due(now=at(TEN))
    submit_due(now=at(4 * TEN))
    said = schedule.runs.latest("due_at").said
    assert "still waits or runs. Stands for every time missed since" in said


def test_a_time_before_its_end_is_made_up_for_after_its_end(cluster, alice, project):
    schedule = schedule_of(alice, project, ends_at=at(TEN + 30))
    assert submit_due(now=at(3 * TEN)) == 1
    schedule.refresh_from_db()
    assert (schedule.runs.get().due_at, schedule.is_over) == (at(TEN), True)


def test_too_late_is_skipped_and_told(cluster, alice, project):
    schedule = schedule_of(alice, project, rule="0 13 * * *", late_within_s=900)
    assert submit_due(now=at(3600 + 901)) == 0
    run = schedule.runs.get()
    assert (run.outcome, run.due_at) == ("missed", at(3600))
    news = Notification.objects.get(kind="schedule_trouble")
    assert (news.person, news.title) == (alice, "Nightly missed its time")
    schedule.refresh_from_db()
    assert schedule.next_due_at == at(86400 + 3600)


def test_a_bound_of_nothing_still_forgives_the_minute_between_two_looks(cluster, alice, project):
    schedule = schedule_of(alice, project, late_within_s=0)
    assert submit_due(now=at(TEN + 59)) == 1
    assert schedule.runs.get().outcome == "submitted"


def test_of_two_times_between_two_looks_the_last_one_stands_for_both(cluster, alice, project):
    schedule = schedule_of(alice, project, rule="* * * * *", late_within_s=0)
    assert submit_due(now=at(60 + 95)) == 1
    run = schedule.runs.get()
    assert run.due_at == at(120) and "every time missed since" in run.said
