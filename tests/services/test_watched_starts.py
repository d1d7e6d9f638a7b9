"""Who watches a job and chose so is told of its start and near its limits; whose watches go."""

from __future__ import annotations

import pytest

from accounts.services import remove_member
from scheduler.models import Attempt, Job, JobWatch, Notification
from scheduler.selectors.people.watchers import own_watch
from scheduler.selectors.sets import get_set_in_full
from scheduler.services.errors import Invalid
from scheduler.services.finishing.limits import tell_near_limits
from scheduler.services.inbox.watched.starting import tell_watchers_of_starts
from scheduler.services.inbox.watched.unwatching import forget_watches
from scheduler.services.inbox.watching import watch_job, watch_set
from scheduler.services.jobs import cancel_job
from tests.factories import member
from tests.scenes import at, build_cluster, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return build_cluster(root, nodes=1, gpus=8)


def run(job, cluster, second=1):
    attempt = start(job, cluster.node(1), now=at(second))
    sync(cluster.node(1), running(attempt), now=at(second))
    return attempt


def told(who) -> list[str]:
    rows = Notification.objects.filter(person=who).order_by("pk")
    return list(rows.values_list("title", flat=True))


def test_a_start_is_told_once_to_who_chose_it_and_may_see_it(
    cluster, root, alice, bob, lead, team, project, django_assert_num_queries
):
    job = submit(alice, project)
    gone = member("gone", team, by=root)
    for one, also in ((bob, ["start"]), (lead, []), (gone, ["start"])):
        watch_job(actor=one, pk=job.pk, also=also, now=at(0))
    remove_member(actor=root, team=team, user=gone)
    with django_assert_num_queries(1):
        assert tell_watchers_of_starts(now=at(0)) == 0
    run(job, cluster)
    with django_assert_num_queries(10):
        assert tell_watchers_of_starts(now=at(30)) == 2
    assert told(bob) == ["train has started"] and told(lead) == told(gone) == told(alice) == []
    assert Notification.objects.get().asked is None
    assert tell_watchers_of_starts(now=at(60)) == 0


def test_what_runs_already_is_no_start_and_what_is_over_has_its_end(cluster, alice, bob, project):
    early, short = submit(alice, project), submit(alice, project, name="short")
    run(early, cluster)
    watch_job(actor=bob, pk=early.pk, also=["start"], now=at(2))
    watch_job(actor=bob, pk=short.pk, also=["start"], now=at(2))
    run(short, cluster, 3)
    Job.objects.filter(pk=short.pk).update(state="succeeded", ended_at=at(4))
    assert tell_watchers_of_starts(now=at(30)) == 1
    assert told(bob) == []


def test_who_began_to_watch_after_the_start_is_not_told_of_it(cluster, alice, bob, lead, project):
    job = submit(alice, project)
    watch_job(actor=bob, pk=job.pk, also=["start"], now=at(0))
    run(job, cluster)
    watch_job(actor=lead, pk=job.pk, also=["start"], now=at(2))
    assert tell_watchers_of_starts(now=at(30)) == 1
    assert told(bob) == ["train has started"] and told(lead) == []


def test_an_array_has_started_though_its_first_task_is_over(cluster, alice, bob, project):
    task, over = (submit(alice, project, array="0-1") for _ in range(2))
    for one in (task, over):
        watch_set(actor=bob, pk=one.job_set_id, also=["start"], now=at(0))
    for one in (task, *over.job_set.tasks.order_by("pk")):
        attempt = run(one, cluster)
        sync(cluster.node(1), ended(attempt), now=at(3))
    Notification.objects.all().delete()
    assert tell_watchers_of_starts(now=at(30)) == 2
    assert told(bob) == [f"Array {task.job_set_id}: a first task has started"]


def test_an_array_has_one_start_and_one_choice(cluster, alice, bob, project):
    task = submit(alice, project, array="0-2", notify="start,array")
    watch_set(actor=bob, pk=task.job_set_id, now=at(0))
    watch_job(actor=bob, pk=task.pk, also=["start"], now=at(0))
    # No word of it leaves it as it is.
    watch_set(actor=bob, pk=task.job_set_id, now=at(0))
    assert JobWatch.objects.get().also == ["start"]
    assert own_watch(bob, get_set_in_full(alice, task.job_set_id).watchers).also_start
    for one in Job.objects.filter(job_set=task.job_set_id).order_by("pk")[:2]:
        run(one, cluster)
    assert tell_watchers_of_starts(now=at(30)) == 1
    assert told(bob) == [f"Array {task.job_set_id}: a first task has started"]
    with pytest.raises(Invalid, match="also: end is nothing to choose here; write start or warn"):
        watch_set(actor=bob, pk=task.job_set_id, also=["end"], now=at(1))
    watch_set(actor=bob, pk=task.job_set_id, also=["warn"], now=at(1))
    assert JobWatch.objects.get().also == ["warn"]


def test_a_limit_that_is_near_is_told_to_who_chose_it_whatever_the_job_asks_for(
    cluster, alice, bob, lead, project
):
    job = submit(alice, project, time_limit="100m")
    watch_job(actor=bob, pk=job.pk, also=["warn"], now=at(0))
    watch_job(actor=lead, pk=job.pk, now=at(0))
    run(job, cluster)
    Attempt.objects.update(started_at=at(0))
    near = [tell_near_limits(now=at(60 * minute + 5)) for minute in (79, 80, 81, 90, 91)]
    assert near == [0, 1, 0, 1, 0]
    assert told(bob) == [f"train has used {one} % of its time limit" for one in (80, 90)]
    assert told(alice) == told(lead) == []
    assert "ask for more" not in Notification.objects.latest("pk").text


def test_who_may_no_longer_see_it_watches_nothing_any_more(
    cluster, root, alice, bob, lead, team, project, django_assert_num_queries
):
    job, over = submit(alice, project), submit(alice, project, name="over")
    task = submit(alice, project, array="0-1")
    for one in (bob, lead):
        watch_job(actor=one, pk=job.pk, now=at(0))
        watch_set(actor=one, pk=task.job_set_id, now=at(0))
    watch_job(actor=lead, pk=over.pk, now=at(0))
    cancel_job(actor=alice, job=over, now=at(1))
    remove_member(actor=root, team=team, user=bob)
    with django_assert_num_queries(6):
        assert forget_watches() == 3
    assert {one.person_id for one in JobWatch.objects.all()} == {lead.pk}
    lead.is_active = False
    lead.save()
    assert forget_watches() == 2
