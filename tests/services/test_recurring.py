"""Schedules: due times bring one job each, whatever happens meanwhile, and say what they do not."""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from accounts.models import AuditEvent
from accounts.services.ending.access import deactivate_person
from accounts.services.teams import archive_project
from scheduler.models import Job, JobSchedule, JobScheduleRun, Notification
from scheduler.selectors.composing.templates import get_version
from scheduler.services.composing.templates import retire_template
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.jobs import cancel_job
from scheduler.services.recurring import running
from scheduler.services.recurring.keeping import (
    resume_schedule,
)
from scheduler.services.recurring.running import run_now, submit_due
from scheduler.spec import SpecInvalid
from scheduler.states import EndReason, JobState
from tests import scenes
from tests.composing import make_template
from tests.recurring import schedule_of
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db

TEN = 600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def outcomes(schedule):
    """The latest last."""
    return list(schedule.runs.order_by("due_at", "pk").values_list("outcome", flat=True))


def end(job, state=JobState.SUCCEEDED, reason=EndReason.COMPLETED):
    """As if it had run."""
    Job.objects.filter(pk=job.pk).update(state=state, end_reason=reason, ended_at=NOON)


def last_job(schedule):
    return schedule.runs.exclude(job=None).latest("at").job


def test_a_due_time_brings_one_job_of_its_owner(cluster, alice, project):
    schedule = schedule_of(alice, project)
    assert schedule.next_due_at == at(TEN)
    assert submit_due(now=at(TEN - 1)) == 0
    assert submit_due(now=at(TEN + 20)) == 1
    job = last_job(schedule)
    assert (job.owner, job.project, job.state, job.name) == (alice, project, "queued", "nightly")
    assert job.schedule_run.due_at == at(TEN)
    # A look that is repeated, as of a worker that was killed after its commit, brings none.
    assert submit_due(now=at(TEN + 20)) == 0
    schedule.refresh_from_db()
    assert schedule.next_due_at == at(2 * TEN)


def test_a_worker_that_dies_before_its_commit_has_submitted_nothing(
    cluster, alice, project, monkeypatch
):
    schedule = schedule_of(alice, project)
    with monkeypatch.context() as patched:
        patched.setattr(running, "next_of", lambda *_: 1 / 0)
        assert submit_due(now=at(TEN)) == 0
    assert not Job.objects.exists() and not JobScheduleRun.objects.exists()
    assert submit_due(now=at(TEN + 60)) == 1
    assert outcomes(schedule) == ["submitted"]


def test_a_clock_that_was_put_back_brings_no_second_job(cluster, alice, project):
    schedule = schedule_of(alice, project)
    submit_due(now=at(TEN))
    JobSchedule.objects.update(next_due_at=at(TEN))
    assert submit_due(now=at(TEN + 5)) == 0
    schedule.refresh_from_db()
    assert (schedule.next_due_at, Job.objects.count()) == (at(2 * TEN), 1)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_of_four_workers_at_once_one_submits(root, alice, project):
    scenes.build_cluster(root, nodes=1, gpus=4)
    schedule = schedule_of(alice, project)
    gate, came = threading.Barrier(4), []

    def look() -> None:
        try:
            gate.wait()
            came.append(submit_due(now=at(TEN)))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(came), Job.objects.count(), outcomes(schedule)) == (1, 1, ["submitted"])


def test_while_the_last_one_goes_on_it_is_skipped_and_said(cluster, alice, project):
    schedule = schedule_of(alice, project)
    submit_due(now=at(TEN))
    first = last_job(schedule)
    submit_due(now=at(2 * TEN))
    assert outcomes(schedule) == ["submitted", "skipped"]
    assert schedule.runs.latest("at").said == f"Job {first.pk} of it still waits or runs."
    end(first)
    submit_due(now=at(3 * TEN))
    assert outcomes(schedule)[-1] == "submitted"


def test_queued_ones_wait_for_each_other_up_to_a_number(cluster, alice, project):
    schedule = schedule_of(alice, project, overlap="queue", most_open=2)
    submit_due(now=at(TEN))
    first = last_job(schedule)
    submit_due(now=at(2 * TEN))
    second = last_job(schedule)
    assert second.spec["depends_on"] == [f"afterany:{first.pk}"]
    assert second.state == JobState.HELD
    submit_due(now=at(3 * TEN))
    assert outcomes(schedule) == ["submitted", "submitted", "skipped"]
    assert "the most it may have" in schedule.runs.latest("at").said


def test_who_queues_waits_for_all_before_also_where_one_of_them_is_cancelled(
    cluster, alice, project
):
    schedule_of(alice, project, overlap="queue")
    for turn in (1, 2, 3):
        submit_due(now=at(turn * TEN))
    first, second, third = Job.objects.order_by("pk")
    cancel_job(actor=alice, job=second, now=at(3 * TEN + 5))
    third.refresh_from_db()
    assert third.spec["depends_on"] == [f"afterany:{first.pk}", f"afterany:{second.pk}"]
    assert third.state == JobState.HELD


def test_the_older_one_is_replaced(cluster, alice, project):
    schedule = schedule_of(alice, project, overlap="replace")
    submit_due(now=at(TEN))
    first = last_job(schedule)
    scenes.start(first, cluster.node(1), now=at(TEN))
    submit_due(now=at(2 * TEN))
    first.refresh_from_db()
    second = last_job(schedule)
    assert first.state == JobState.STOPPING
    # Both never run at once.
    assert (second.state, second.spec["depends_on"]) == ("held", [f"afterany:{first.pk}"])


def test_an_array_is_one_that_goes_on_while_any_task_does(cluster, alice, project):
    schedule = schedule_of(alice, project, job={"array": "0-2"}, overlap="replace")
    submit_due(now=at(TEN))
    end(last_job(schedule))
    submit_due(now=at(2 * TEN))
    assert list(Job.objects.order_by("pk").values_list("state", flat=True)) == [
        *["succeeded", "cancelled", "cancelled"],
        *["queued"] * 3,
    ]


def test_a_zone_that_is_known_no_more_pauses_it_and_is_named(client, cluster, alice, project):
    schedule = schedule_of(alice, project)
    JobSchedule.objects.update(zone="Gone/Away")
    client.force_login(alice)
    assert client.get(f"/schedules/{schedule.pk}/").status_code == 200
    assert submit_due(now=at(TEN)) == 0
    schedule.refresh_from_db()
    assert "zone: knows no zone 'Gone/Away'" in schedule.pause_reason
    with pytest.raises(Invalid) as refused:
        resume_schedule(actor=alice, schedule=schedule, now=at(TEN))
    assert refused.value.field == "zone"


def test_a_refusal_is_kept_in_its_own_words_told_once_and_pauses_in_the_end(
    cluster, alice, project
):
    schedule = schedule_of(alice, project, pause_after=3)
    JobSchedule.objects.update(document={**schedule.document, "gpus_per_node": 9})
    for turn in range(1, 4):
        submit_due(now=at(turn * TEN))
    assert outcomes(schedule) == ["refused"] * 3
    assert schedule.runs.latest("at").said.startswith("gpus_per_node: ")
    assert Notification.objects.filter(kind="schedule_trouble").count() == 1
    submit_due(now=at(4 * TEN))
    schedule.refresh_from_db()
    assert schedule.paused_at == at(4 * TEN) and schedule.next_due_at is None
    assert schedule.pause_reason == "Paused by itself: 3 times in a row it failed or was refused."
    assert Notification.objects.latest("pk").title == "Nightly is paused"
    event = AuditEvent.objects.get(action="schedule.pause")
    assert (event.actor_id, event.subject_label) == (None, "Nightly")


def test_jobs_that_fail_in_a_row_pause_it_and_one_that_ends_well_starts_anew(
    cluster, alice, project
):
    schedule = schedule_of(alice, project, pause_after=2)
    ends = ["failed", "succeeded", "failed", "failed"]
    for turn, state in enumerate(ends, start=1):
        submit_due(now=at(turn * TEN))
        end(last_job(schedule), state, EndReason.EXIT_CODE)
    submit_due(now=at(5 * TEN))
    schedule.refresh_from_db()
    assert outcomes(schedule) == [*["submitted"] * 4, "skipped"]
    assert schedule.paused_at == at(5 * TEN)
    resumed = resume_schedule(actor=alice, schedule=schedule, now=at(5 * TEN + 1))
    assert resumed.next_due_at == at(6 * TEN)
    assert submit_due(now=at(6 * TEN)) == 1


def test_it_stops_with_its_owner_and_its_project(root, cluster, alice, bob, lead, project):
    hers, his = schedule_of(alice, project), schedule_of(bob, project)
    deactivate_person(actor=root, user=alice, reason="left")
    submit_due(now=at(TEN))
    hers.refresh_from_db()
    assert "Alice, its owner, may not sign in" in hers.pause_reason
    told = Notification.objects.filter(title="Nightly is paused").values_list("person", flat=True)
    assert {alice.pk, lead.pk} <= set(told)
    assert outcomes(his) == ["submitted"]
    end(last_job(his))
    archive_project(actor=root, project=project)
    submit_due(now=at(2 * TEN))
    his.refresh_from_db()
    assert his.pause_reason == f"Paused by itself: project {project.path} is archived."


def test_rules_of_a_template_hold_each_time(cluster, lead, alice, project, team):
    version = get_version(alice, make_template(lead, team))
    job = {**version.document, "gpus_per_node": 3}
    schedule = schedule_of(alice, project, job=job, template=version)
    submit_due(now=at(TEN))
    assert last_job(schedule).template_use.version == version
    end(last_job(schedule))
    retire_template(actor=lead, template=version.template)
    submit_due(now=at(2 * TEN))
    assert "is retired" in schedule.runs.latest("due_at").said
    with pytest.raises(SpecInvalid, match="gpus_per_node"):
        schedule_of(alice, project, job={**job, "gpus_per_node": 5}, template=version)


def test_by_hand_it_is_one_job_a_minute_and_only_its_owner_s(cluster, alice, bob, project):
    schedule = schedule_of(alice, project)
    first = run_now(actor=alice, schedule=schedule, now=at(61))
    again = run_now(actor=alice, schedule=schedule, now=at(100))
    assert (first, Job.objects.count()) == (again, 1)
    with pytest.raises(Conflict, match="still waits or runs"):
        run_now(actor=alice, schedule=schedule, now=at(121))
    with pytest.raises(Forbidden):
        run_now(actor=bob, schedule=schedule, now=at(200))
    cancel_job(actor=alice, job=first.job, now=at(130))
    assert submit_due(now=at(TEN)) == 1


def test_dates_bound_it(cluster, alice, project):
    schedule = schedule_of(alice, project, starts_at=at(2 * TEN), ends_at=at(3 * TEN))
    assert schedule.next_due_at == at(2 * TEN)
    submit_due(now=at(2 * TEN))
    end(last_job(schedule))
    submit_due(now=at(3 * TEN))
    schedule.refresh_from_db()
    assert (schedule.is_over, len(outcomes(schedule))) == (True, 2)


def test_a_look_without_anything_due_is_one_query(
    cluster, alice, project, django_assert_num_queries
):
    schedule_of(alice, project)
    with django_assert_num_queries(1):
        submit_due(now=NOON)
