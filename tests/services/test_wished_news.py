"""What a job of its own asks to be told of (`notify`): it goes before what its owner chose."""

from __future__ import annotations

import pytest

from scheduler.loop.supposing.in_time import tell_of_time
from scheduler.models import Attempt, Job, JobSet, Notification, OutboundMail
from scheduler.selectors.inbox import visible_notifications
from scheduler.services.errors import Invalid
from scheduler.services.finishing.limits import tell_near_limits
from scheduler.services.inbox import choose_kind, mute
from scheduler.services.inbox.jobs import tell_of_ends, tell_of_starts
from scheduler.services.inbox.mailing import write_mails
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


def mailed(person) -> list[str]:
    write_mails(now=at(5000))
    rows = OutboundMail.objects.filter(person=person).order_by("pk")
    return list(rows.values_list("subject", flat=True))


def run(cluster, job, code=0, *, s=1):
    attempt = start(job, cluster.node(1), now=at(s))
    sync(cluster.node(1), running(attempt), now=at(s + 1))
    reason = EndReason.EXIT_CODE if code else EndReason.COMPLETED
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=code), now=at(s + 2))
    job.refresh_from_db()


def test_what_it_names_comes_by_mail_and_the_rest_is_kept_quiet(cluster, alice, project):
    choose_kind(actor=alice, kind=NoticeKind.JOB_SUCCEEDED, in_inbox=False, by_mail=False)
    choose_kind(actor=alice, kind=NoticeKind.JOB_FAILED, in_inbox=True, by_mail=True)
    asks = submit(alice, project, name="asks", notify="start, END")
    usual = submit(alice, project, name="usual")
    fails = submit(alice, project, name="fails", notify="fail")
    quiet = submit(alice, project, name="quiet", notify="none")
    for job in (asks, usual, fails):
        run(cluster, job)
    run(cluster, quiet, 3)
    assert told(alice) == mailed(alice) == ["asks has started", "asks has finished"]
    (first, *_) = OutboundMail.objects.order_by("pk")
    assert "The job itself asks for this mail (notify)." in first.text
    # Programs and the team's chats go on to hear of all of them.
    kept = Notification.objects.filter(asked=False).values_list("title", flat=True)
    assert set(kept) == {"fails has finished", "quiet has failed"}


def test_an_event_is_told_once_however_often_it_is_repeated(cluster, alice, project):
    job = submit(alice, project, notify=["start", "end", "retry"], retries=1)
    run(cluster, job, 1)
    run(cluster, job, 1, s=10)
    for again in (20, 30):
        tell_of_starts([job], now=at(again))
        tell_of_ends([job], now=at(again))
    assert told(alice) == [
        "train has started",
        "train was interrupted and waits again",
        "train has failed",
    ]


def test_what_is_over_at_once_has_started_all_the_same(cluster, alice, project):
    job = submit(alice, project, notify="start,end")
    attempt = start(job, cluster.node(1), now=at(1))
    done = ended(attempt, started_at=at(1).timestamp())
    sync(cluster.node(1), done, now=at(2))
    assert told(alice) == ["train has started", "train has finished"]
    never = submit(alice, project, name="never", notify="start,end")
    cancel_job(actor=alice, job=never)
    assert len(told(alice)) == 2


def test_who_names_no_retry_hears_of_the_last_end_alone(cluster, alice, project):
    job = submit(alice, project, notify="fail,preempt", retries=1)
    run(cluster, job, 1)
    run(cluster, job, 1, s=10)
    assert told(alice) == ["train has failed"]


def test_mutes_hold_and_what_others_do_is_told_in_any_case(cluster, alice, lead, project):
    job = submit(alice, project, notify="start,end")
    attempt = start(job, cluster.node(1), now=at(1))
    sync(cluster.node(1), running(attempt), now=at(2))
    mute(actor=alice, subject=f"job:{job.pk}")
    assert told(alice) == mailed(alice) == []
    silent = submit(alice, project, name="silent", notify="none")
    cancel_job(actor=lead, reason=WHY, job=silent)
    assert told(alice) == ["silent was cancelled"]


def test_an_array_tells_once_and_each_task_only_where_that_is_asked(cluster, alice, project):
    once = submit(alice, project, name="once", array="0-2", notify="start,end,fail,retry")
    each = submit(alice, project, name="each", array="0-1", notify="fail,array")
    for number, task in enumerate(Job.objects.filter(job_set=once.job_set_id).order_by("pk")):
        run(cluster, task, number, s=10 * number + 1)
    numbers = [once.job_set_id, each.job_set_id]
    assert JobSet.objects.filter(pk__in=numbers).count() == 2
    assert len(told(alice)) == 3
    first, failed, over = told(alice)
    assert first == f"Array {numbers[0]}: a first task has started"
    assert failed.startswith(f"A task of array {numbers[0]} has failed: once")
    assert over == f"Array {numbers[0]} has ended: 1 of 3 tasks succeeded"
    for task in Job.objects.filter(job_set=each.job_set_id).order_by("pk"):
        run(cluster, task, 1, s=60 + task.pk)
    titles = told(alice)[3:]
    assert len(titles) == 2 and all(one.endswith("has failed") for one in titles)
    subjects = Notification.objects.filter(asked=True).values_list("subject", flat=True)
    assert set(subjects) == {f"set:{number}" for number in numbers}


def test_a_time_limit_that_is_near_is_told_at_80_and_90_per_cent(
    cluster, alice, project, django_assert_num_queries
):
    job = submit(alice, project, notify="warn", time_limit="100m")
    other = submit(alice, project, name="other", notify="end", time_limit="100m")
    for one in (job, other):
        attempt = start(one, cluster.node(1), now=at(0))
        sync(cluster.node(1), running(attempt), now=at(1))
    Attempt.objects.update(started_at=at(0))
    minute = 60
    assert tell_near_limits(now=at(79 * minute)) == 0
    assert [tell_of_time(now=at(m * minute + 5)) for m in (80, 81, 90, 91, 200)] == [1, 0, 1, 0, 0]
    assert told(alice) == [f"train has used {near} % of its time limit" for near in (80, 90)]
    assert "left" in Notification.objects.latest("pk").text
    Job.objects.update(notify=None)
    # The second asks who watches.
    with django_assert_num_queries(2):
        tell_near_limits(now=at(95 * minute))


def test_nobody_chooses_what_only_jobs_ask_for(alice):
    with pytest.raises(Invalid, match="notify"):
        choose_kind(actor=alice, kind=NoticeKind.JOB_STARTED, in_inbox=True, by_mail=True)
