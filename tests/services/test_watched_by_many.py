"""Watchers of arrays, many at once, and those who lost what they watched."""

from __future__ import annotations

import pytest

from accounts.errors import Conflict
from accounts.services import add_member, create_project, create_team, remove_member
from scheduler.models import Job, JobSet, Notification
from scheduler.services.changing.by_hand import hold_job
from scheduler.services.inbox import watching
from scheduler.services.inbox.jobs import tell_of_ends
from scheduler.services.inbox.watching import watch_job, watch_set
from scheduler.services.sets import cancel_set
from scheduler.states import EndReason, JobState, NoticeKind
from tests.factories import member
from tests.scenes import at, build_cluster, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return build_cluster(root, nodes=1, gpus=8)


@pytest.fixture
def array(cluster, alice, project):
    submit(alice, project, array="0-2")
    return JobSet.objects.get()


def test_that_its_owner_cancelled_an_array_is_told_as_of_a_job(array, alice, bob, finance):
    for one in (bob, finance):
        watch_set(actor=one, pk=array.pk, now=at(0))
    cancel_set(actor=alice, job_set=array, now=at(1))
    rows = Notification.objects.order_by("pk")
    assert [(row.person, row.kind) for row in rows] == [
        (bob, NoticeKind.JOB_CANCELLED),
        (finance, NoticeKind.JOB_CANCELLED),
    ]
    title = f"Array {array.pk} was cancelled: 0 of 3 tasks succeeded"
    assert {row.title for row in rows} == {title}
    assert "Alice" in rows[0].text and rows[1].text == ""


def test_the_task_whose_end_is_told_is_none_that_its_owner_cancelled(array, alice, bob):
    watch_set(actor=bob, pk=array.pk, now=at(0))
    cancel_set(actor=alice, job_set=array, now=at(1))
    Notification.objects.all().delete()
    well, *others = Job.objects.order_by("pk")
    Job.objects.filter(pk=well.pk).update(state=JobState.SUCCEEDED, end_facts={})
    well.refresh_from_db()
    tell_of_ends([well, *others], now=at(2))
    titles = Notification.objects.order_by("pk").values_list("person__username", "title")
    assert list(titles) == [
        (who, f"Array {array.pk} has ended: 1 of 3 tasks succeeded") for who in ("alice", "bob")
    ]


def test_a_chat_has_the_words_of_who_may_read_them(cluster, alice, bob, finance, project):
    job = submit(alice, project)
    for one in (finance, bob):
        watch_job(actor=one, pk=job.pk, now=at(0))
    hold_job(actor=alice, job=job, now=at(1))
    first, second = Notification.objects.order_by("pk")
    assert first.key == second.key and first.text and not second.text


def test_what_many_tasks_bring_to_many_watchers_is_written_once(
    array, root, alice, team, django_assert_num_queries
):
    for number in range(6):
        friend = member(f"friend-{number}", team, by=root)
        watch_set(actor=friend, pk=array.pk, now=at(0))
    (task, *_) = Job.objects.order_by("pk")
    task.state, task.end_reason = JobState.FAILED, EndReason.EXIT_CODE
    with django_assert_num_queries(5):
        tell_of_ends([task] * 40, now=at(1))
    assert Notification.objects.count() == 7


def test_what_one_may_no_longer_see_takes_no_place_of_what_one_watches(
    cluster, alice, bob, root, team, project, monkeypatch
):
    monkeypatch.setattr(watching, "MOST_OF_A_PERSON", 1)
    elsewhere = create_team(actor=root, name="Elsewhere")
    add_member(actor=root, team=elsewhere, user=bob)
    add_member(actor=root, team=elsewhere, user=alice)
    home, other = (create_project(actor=root, team=elsewhere, name=one) for one in ("H", "O"))
    watch_job(actor=bob, pk=submit(alice, project).pk, now=at(0))
    remove_member(actor=root, team=team, user=bob)
    alice, bob = (type(bob).objects.get(pk=one.pk) for one in (alice, bob))
    watch_job(actor=bob, pk=submit(alice, home).pk, now=at(1))
    with_token = type(bob).objects.get(pk=bob.pk)
    with_token.bound_project = other.pk
    with pytest.raises(Conflict, match="You watch 1 jobs"):
        watch_job(actor=with_token, pk=submit(alice, other).pk, now=at(1))
