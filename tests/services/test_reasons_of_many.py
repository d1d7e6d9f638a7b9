"""One word for the owners of many jobs: arrays, marked ones, bookings, those of who leaves."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent
from scheduler.models import Job, JobEvent, Notification
from scheduler.selectors.jobs import end_sentence_of
from scheduler.services.bookings import (
    cancel_booking,
    edit_booking,
    end_booked_jobs,
    plan_booking,
)
from scheduler.services.changing.by_hand import hold_job
from scheduler.services.changing.many import Act, act_on_jobs
from scheduler.services.errors import Invalid
from scheduler.services.holding.reasons import ReasonNeeded
from scheduler.services.people.leaving import end_access
from scheduler.services.seconding.deciding import agree_to_cancel
from scheduler.services.sets import cancel_set
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.seconding import proposed

pytestmark = pytest.mark.django_db
WHY = "makes room for the deadline"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, gpus=4)


@pytest.fixture
def job(cluster, alice, project):
    return submit(alice, project, name="train")


def stop(cluster, attempt, reason=EndReason.EXIT_CODE) -> Job:
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=143), now=at(9))
    return Job.objects.get(pk=attempt.job_id)


def told(person) -> list[tuple[str, str, str]]:
    rows = Notification.objects.filter(person=person).order_by("pk")
    return list(rows.values_list("kind", "title", "text"))


def test_an_array_of_another_needs_one_word_for_all(cluster, alice, lead, project):
    array = submit(alice, project, name="sweep", array="0-4").job_set
    task = array.tasks.get(array_index=0)
    attempt = start(task, cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(1))
    with pytest.raises(ReasonNeeded):
        cancel_set(actor=lead, job_set=array)
    assert not array.tasks.filter(state="cancelled").exists()
    assert cancel_set(actor=lead, job_set=array, reason=WHY, now=at(2)) == 5
    stop(cluster, attempt)
    said = {end_sentence_of(one) for one in array.tasks.all()}
    assert said == {f"Cancelled by {lead.get_full_name()}: {WHY}."}
    assert AuditEvent.objects.get(action="set.cancel").reason == WHY
    news = [one for one in told(alice) if one[0] == "job_cancelled"]
    assert news == [("job_cancelled", "sweep: tasks were ended", said.pop())]
    # All have ended: nothing is done, and nothing has to be said.
    assert cancel_set(actor=lead, job_set=array) == 0


@pytest.mark.parametrize("act", [Act.CANCEL, Act.HOLD])
def test_of_marked_jobs_one_of_anothers_is_enough(act, cluster, alice, lead, project):
    jobs = [submit(lead, project), submit(alice, project)]
    assert len(act_on_jobs(actor=lead, jobs=jobs[:1], act=Act.HOLD).jobs) == 1
    with pytest.raises(ReasonNeeded):
        act_on_jobs(actor=lead, jobs=jobs, act=act)
    done = act_on_jobs(actor=lead, jobs=jobs, act=act, reason=WHY)
    assert done.jobs[-1].pk == jobs[1].pk
    kinds = JobEvent.objects.filter(detail__because=WHY).values_list("job_id", flat=True)
    assert jobs[1].pk in kinds


def test_of_marked_jobs_those_that_their_owners_hold_need_a_word_to_go(
    cluster, alice, lead, project
):
    own = hold_job(actor=alice, job=submit(alice, project))
    other = hold_job(actor=lead, job=submit(alice, project), reason=WHY)
    assert len(act_on_jobs(actor=lead, jobs=[other], act=Act.RELEASE).jobs) == 1
    with pytest.raises(ReasonNeeded):
        act_on_jobs(actor=lead, jobs=[own], act=Act.RELEASE)
    assert len(act_on_jobs(actor=lead, jobs=[own], act=Act.RELEASE, reason=WHY).jobs) == 1


def test_tasks_held_together_are_one_piece_of_news(cluster, alice, lead, project):
    tasks = list(submit(alice, project, name="sweep", array="0-3").job_set.tasks.all())
    act_on_jobs(actor=lead, jobs=tasks, act=Act.HOLD, reason=WHY)
    [(kind, title, _)] = told(alice)
    assert (kind, title) == ("job_held", "sweep: tasks were held")


def test_two_people_end_them_with_the_word_of_the_first(cluster, alice, lead, operator, project):
    array = submit(alice, project, name="sweep", array="0-100").job_set
    attempt = start(array.tasks.get(array_index=0), cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(1))
    found = proposed(lead, array, reason=WHY)
    agree_to_cancel(actor=operator, proposal=found, now=at(2))
    stop(cluster, attempt)
    said = {end_sentence_of(one) for one in array.tasks.all()}
    assert said == {f"Cancelled by operator Lead and Operator: {WHY}."}


def test_the_jobs_of_who_leaves_say_why(cluster, job, alice, root):
    with pytest.raises(Invalid):
        end_access(actor=root, user=alice, reason="x" * 201, cancel_jobs=True)
    alice.refresh_from_db()
    assert alice.is_active
    end_access(actor=root, user=alice, reason="left on 1 May", cancel_jobs=True)
    job.refresh_from_db()
    assert end_sentence_of(job).endswith(": left on 1 May.")


@pytest.fixture
def booking(cluster, lead, project):
    times = {"from_at": at(100), "until_at": at(9000)}
    return plan_booking(actor=lead, owner=project, pool=cluster.pool, nodes=1, now=at(0), **times)


def inside(cluster, booking, alice, lead, project) -> tuple[Job, Job]:
    """One that runs and one that waits, both of somebody else."""
    runs = submit(alice, project, name="runs", booking=str(booking.pk))
    attempt = start(runs, cluster.node(1), now=at(100))
    sync(cluster.node(1), running(attempt), now=at(101))
    return runs, submit(alice, project, name="waits", booking=str(booking.pk))


@pytest.mark.parametrize("how", ["given back", "ended earlier"])
def test_a_booking_with_jobs_of_others_ends_early_with_a_word(
    how, cluster, booking, alice, lead, project
):
    runs, waits = inside(cluster, booking, alice, lead, project)
    earlier = {"until_at": at(1000)}

    def cut(**said: str) -> None:
        if how == "given back":
            cancel_booking(actor=lead, booking=booking, now=at(200), **said)
        else:
            edit_booking(actor=lead, booking=booking, changes=earlier, now=at(200), **said)

    with pytest.raises(ReasonNeeded):
        cut()
    cut(reason=WHY)
    assert AuditEvent.objects.filter(reason=WHY, action__startswith="booking.").count() == 1
    end_booked_jobs(now=at(2000))
    sync(cluster.node(1), ended(runs.attempts.get(), reason=EndReason.TIME_LIMIT), now=at(2001))
    early = f"was ended early by {lead.get_full_name()}: {WHY}. Clone the job"
    for job in (runs, waits):
        job.refresh_from_db()
        assert job.end_reason == "booking_ended" and early in end_sentence_of(job)
    assert {(kind, title) for kind, title, _ in told(alice)} == {
        ("job_cancelled", "runs was ended with its booking"),
        ("job_cancelled", "waits was ended with its booking"),
    }


def test_a_booking_with_ones_own_jobs_and_one_that_gets_longer_need_none(
    cluster, booking, alice, lead, project
):
    submit(alice, project, booking=str(booking.pk))
    edit_booking(actor=lead, booking=booking, changes={"until_at": at(9999)}, now=at(2))
    cancel_booking(actor=lead, booking=booking, reason=WHY, now=at(3))
    times = {"from_at": at(100), "until_at": at(9000)}
    own = plan_booking(actor=lead, owner=project, pool=cluster.pool, nodes=1, now=at(4), **times)
    job = submit(lead, project, booking=str(own.pk))
    cancel_booking(actor=lead, booking=own, now=at(5))
    end_booked_jobs(now=at(6))
    assert "is over. Clone" in end_sentence_of(Job.objects.get(pk=job.pk))
