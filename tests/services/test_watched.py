"""Who watches the job of another: told like its owner, as long as they may see it."""

from __future__ import annotations

import pytest

from accounts.errors import Conflict, NotFound
from accounts.services import remove_member
from scheduler.models import JobWatch, Notification
from scheduler.selectors.inbox import visible_notifications
from scheduler.services.inbox import choose_kind, watching
from scheduler.services.inbox.watching import unwatch_job, watch_job, watch_set
from scheduler.services.jobs import cancel_job
from scheduler.states import EndReason, NoticeKind
from tests.scenes import at, build_cluster, ended, running, start, submit, sync
from tests.seconding import WHY

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return build_cluster(root, nodes=1, gpus=8)


def told(person) -> list[str]:
    return list(visible_notifications(person).order_by("pk").values_list("title", flat=True))


def run(cluster, job, code=0, *, s=1):
    attempt = start(job, cluster.node(1), now=at(s))
    sync(cluster.node(1), running(attempt), now=at(s + 1))
    reason = EndReason.EXIT_CODE if code else EndReason.COMPLETED
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=code), now=at(s + 2))
    job.refresh_from_db()


def test_a_watcher_is_told_once_whatever_the_job_asks_for(cluster, alice, bob, project):
    job = submit(alice, project, notify="none", retries=1)
    for _ in range(2):
        watch_job(actor=bob, pk=job.pk, now=at(0))
    run(cluster, job, 1)
    run(cluster, job, 1, s=10)
    assert told(alice) == []
    assert told(bob) == ["train was interrupted and waits again", "train has failed"]
    with pytest.raises(Conflict, match="is over"):
        watch_job(actor=bob, pk=job.pk, now=at(20))
    unwatch_job(actor=bob, pk=job.pk)
    assert not JobWatch.objects.exists()


def test_a_watcher_s_own_choice_of_kinds_holds(cluster, alice, bob, project):
    choose_kind(actor=bob, kind=NoticeKind.JOB_FAILED, in_inbox=False, by_mail=False)
    job = submit(alice, project)
    watch_job(actor=bob, pk=job.pk, now=at(0))
    run(cluster, job, 1)
    assert told(alice) == ["train has failed"] and told(bob) == []


def test_who_was_moved_out_of_the_team_is_told_nothing(cluster, root, alice, bob, team, project):
    job = submit(alice, project)
    watch_job(actor=bob, pk=job.pk, now=at(0))
    remove_member(actor=root, team=team, user=bob)
    run(cluster, job)
    assert told(alice) == ["train has finished"]
    assert not Notification.objects.filter(person=bob, subject=f"job:{job.pk}").exists()


def test_foreign_and_missing_look_the_same_and_ones_own_needs_none(alice, carol, project, cluster):
    job = submit(alice, project)
    for pk in (job.pk, job.pk + 1000):
        for act in (
            lambda pk: watch_job(actor=carol, pk=pk, now=at(0)),
            lambda pk: unwatch_job(actor=carol, pk=pk),
        ):
            with pytest.raises(NotFound, match="no such job"):
                act(pk)
    with pytest.raises(Conflict, match="You own job"):
        watch_job(actor=alice, pk=job.pk, now=at(0))


def test_who_sees_that_it_exists_alone_is_told_no_reason(cluster, root, alice, project):
    job = submit(alice, project)
    watch_job(actor=root, pk=job.pk, now=at(0))
    run(cluster, job, 3)
    from scheduler.selectors.jobs import may_read_inside

    (row,) = Notification.objects.filter(person=root, kind=NoticeKind.JOB_FAILED)
    assert bool(row.text) is may_read_inside(root, job)


def test_its_owner_s_cancel_is_told_and_ones_own_is_not(cluster, root, alice, bob, project):
    job, other = submit(alice, project), submit(alice, project, name="other")
    for one in (job, other):
        watch_job(actor=bob, pk=one.pk, now=at(0))
        watch_job(actor=root, pk=one.pk, now=at(0))
    cancel_job(actor=alice, job=job, now=at(1))
    cancel_job(actor=root, job=other, now=at(1), reason=WHY)
    assert told(bob) == ["train was cancelled", "other was cancelled"]
    assert told(root) == ["train was cancelled"]
    assert told(alice) == ["other was cancelled"]


def test_an_array_is_watched_as_a_whole(cluster, alice, bob, project):
    from scheduler.models import Job, JobSet

    submit(alice, project, array="0-1", notify="none")
    (job_set,) = JobSet.objects.all()
    tasks = list(Job.objects.filter(job_set=job_set).order_by("pk"))
    watch_job(actor=bob, pk=tasks[0].pk, now=at(0))
    watch_set(actor=bob, pk=job_set.pk, now=at(0))
    assert JobWatch.objects.get().job_set == job_set
    run(cluster, tasks[0])
    run(cluster, tasks[1], 1, s=10)
    assert [one.split(":")[0] for one in told(bob)] == [
        f"A task of array {job_set.pk} has failed",
        f"Array {job_set.pk} has ended",
    ]
    assert told(alice) == []


def test_both_limits_say_what_helps(alice, bob, root, project, cluster, monkeypatch):
    monkeypatch.setattr(watching, "MOST_OF_A_JOB", 1)
    job, other = submit(alice, project), submit(alice, project, name="other")
    watch_job(actor=bob, pk=job.pk, now=at(0))
    with pytest.raises(Conflict, match="has to stop"):
        watch_job(actor=root, pk=job.pk, now=at(0))
    monkeypatch.setattr(watching, "MOST_OF_A_PERSON", 1)
    with pytest.raises(Conflict, match="stop watching one"):
        watch_job(actor=bob, pk=other.pk, now=at(0))
    # What is over counts no more.
    cancel_job(actor=alice, job=job, now=at(1))
    watch_job(actor=bob, pk=other.pk, now=at(2))
