"""What who watches a job is told of its course: holds, pauses, lateness, idle GPUs and sessions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.services import remove_member
from scheduler.models import Job, JobSet, JobWatch, Notification
from scheduler.selectors.one_job.header import job_with_header
from scheduler.selectors.sets import get_set_in_full
from scheduler.selectors.watching.watches import watched_by, watchers_of_job
from scheduler.services.changing.by_hand import hold_job, pause_job, release_job
from scheduler.services.finishing.telling import tell_missed
from scheduler.services.inbox import watching
from scheduler.services.inbox.jobs import tell_of_ends
from scheduler.services.inbox.watched.unwatching import forget_watches
from scheduler.services.inbox.watching import watch_job, watch_set
from scheduler.services.jobs import cancel_job
from scheduler.services.sessions import stop_idle_sessions
from scheduler.states import EndReason
from tests import idling, scenes
from tests.factories import member
from tests.scenes import NOON, at, build_cluster, submit
from tests.seconding import WHY

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return build_cluster(root, nodes=1, gpus=8)


def told(who) -> list[str]:
    return list(
        Notification.objects.filter(person=who).order_by("pk").values_list("title", flat=True)
    )


def test_holds_and_releases_are_told_by_whomever_but_not_to_who_did_it(
    cluster, alice, bob, root, project
):
    job = submit(alice, project)
    for one in (bob, root):
        watch_job(actor=one, pk=job.pk, now=at(0))
    hold_job(actor=alice, job=job, now=at(1))
    release_job(actor=alice, job=job, now=at(2))
    assert told(bob) == told(root) == ["train was held", "train was released"]
    assert told(alice) == []
    hold_job(actor=root, job=job, reason=WHY, now=at(3))
    release_job(actor=root, job=job, reason=WHY, now=at(4))
    assert len(told(bob)) == 4 and len(told(root)) == 2
    assert told(alice) == ["train was held", "train was released"]


def test_a_pause_by_its_owner_is_told(cluster, alice, bob, project):
    job = submit(alice, project)
    watch_job(actor=bob, pk=job.pk, now=at(0))
    attempt = scenes.start(job, cluster.node(1), now=at(1))
    scenes.sync(cluster.node(1), scenes.running(attempt), now=at(2))
    pause_job(actor=alice, job=Job.objects.get(pk=job.pk), now=at(3))
    report = scenes.ended(attempt, reason=EndReason.PREEMPTED, exit_code=143)
    scenes.sync(cluster.node(1), report, now=at(4))
    (row,) = Notification.objects.filter(person=bob)
    assert row.title == "train was paused" and "Alice" in row.text


def test_lateness_is_told(cluster, alice, bob, project):
    job = submit(alice, project)
    watch_job(actor=bob, pk=job.pk, now=at(0))
    Job.objects.filter(pk=job.pk).update(finish_by=at(5))
    assert tell_missed([job.pk], now=at(6)) == 1
    assert told(bob) == told(alice) == ["train is late"]


def test_of_idle_gpus_a_watcher_is_not_asked_to_do_what_only_its_owner_can(
    cluster, alice, bob, lead, project
):
    attempt = idling.runs(cluster, alice, project)
    idling.rests(attempt, 0, 60)
    watch_job(actor=bob, pk=attempt.job_id, now=NOON)
    idling.rule_for(lead, project)
    idling.watch(31, 47)
    first, second = Notification.objects.filter(person=bob).order_by("pk")
    assert "or its owner says that it is still needed" in first.text
    assert "stayed below" in second.text and "Resume it" not in second.text
    first, second = Notification.objects.filter(person=alice).order_by("pk")
    assert "you say on its page" in first.text and "Resume it" in second.text


def test_of_a_session_a_watcher_is_led_to_its_job(cluster, alice, bob, project):
    job = submit(alice, project, script="", session={"app": "shell", "idle_stop": "10m"})
    attempt = scenes.start(job, cluster.node(1), now=NOON)
    scenes.sync(cluster.node(1), scenes.running(attempt), now=NOON)
    watch_job(actor=bob, pk=job.pk, now=NOON)
    for minutes in (8.5, 9):
        stop_idle_sessions(now=NOON + timedelta(minutes=minutes))
    (row,) = Notification.objects.filter(person=bob)
    assert row.path == f"/jobs/{job.pk}/" and row.text.endswith("UTC.")
    (own,) = Notification.objects.filter(person=alice)
    assert own.path == f"/sessions/{job.pk}/" and "keep it" in own.text


def test_finance_is_told_that_it_ended_and_nothing_from_inside(cluster, alice, finance, project):
    job = submit(alice, project)
    watch_job(actor=finance, pk=job.pk, now=at(0))
    cancel_job(actor=alice, job=job, now=at(1))
    (row,) = Notification.objects.filter(person=finance)
    assert row.title == "train was cancelled" and row.text == ""


def test_who_may_no_longer_see_it_is_named_nowhere_and_takes_no_place(
    cluster, alice, bob, root, team, project, monkeypatch
):
    job = submit(alice, project, array="0-1")
    (job_set,) = JobSet.objects.all()
    watch_set(actor=bob, pk=job_set.pk, now=at(0))
    assert job_with_header(alice, job.pk, waiters=True).watchers == [(bob.pk, "bob", False, False)]
    assert get_set_in_full(alice, job_set.pk).watchers == [(bob.pk, "bob", False, False)]
    assert [one.job_set_id for one in watched_by(bob)] == [job_set.pk]
    remove_member(actor=root, team=team, user=bob)
    bob = type(bob).objects.get(pk=bob.pk)
    assert job_with_header(alice, job.pk, waiters=True).watchers == []
    assert get_set_in_full(alice, job_set.pk).watchers == []
    assert not watchers_of_job(alice, job.pk) and not watched_by(bob)
    monkeypatch.setattr(watching, "MOST_OF_A_JOB", 1)
    watch_set(actor=root, pk=job_set.pk, now=at(1))


def test_watching_ends_with_the_job_and_rows_go_later(cluster, alice, bob, project):
    job, other = submit(alice, project), submit(alice, project, name="other")
    for one in (job, other):
        watch_job(actor=bob, pk=one.pk, now=at(0))
    cancel_job(actor=alice, job=job, now=at(1))
    assert [one.job_id for one in watched_by(bob)] == [other.pk]
    assert not watchers_of_job(alice, job.pk)
    assert job_with_header(alice, job.pk, waiters=True).watchers == []
    assert forget_watches() == 1 and JobWatch.objects.get().job == other


def test_an_end_costs_one_statement_more_and_with_many_watchers_a_fixed_number(
    cluster, root, alice, team, project, django_assert_num_queries
):
    job = submit(alice, project)
    job.end_reason, job.state = EndReason.EXIT_CODE, "failed"
    with django_assert_num_queries(2):
        tell_of_ends([job], now=at(1))
    for number in range(3):
        friend = member(f"friend-{number}", team, by=root)
        watch_job(actor=friend, pk=job.pk, now=at(0))
    with django_assert_num_queries(4):
        tell_of_ends([job], now=at(2))
    assert Notification.objects.count() == 4
