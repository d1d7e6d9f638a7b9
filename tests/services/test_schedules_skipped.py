"""Due times of schedules that are left out: they say so, once for many, and cost no more for it."""

from __future__ import annotations

import json

import pytest

from accounts.models import AuditEvent, Role
from accounts.services import change_role, remove_member
from scheduler.models import Delivery, Job, JobScheduleRun, Notification, Webhook
from scheduler.selectors.inbox.sight import seen_by
from scheduler.selectors.recurring.acts import acts_on, told_of
from scheduler.selectors.recurring.schedules import ahead_of, costs_of_runs, ended_lately
from scheduler.services.inbox import add_webhook
from scheduler.services.inbox.taking_up import take_up
from scheduler.services.people.leaving import end_access
from scheduler.services.recurring.keeping import (
    change_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
)
from scheduler.services.recurring.running import carry_out, submit_due
from scheduler.services.recurring.taking import take_over
from scheduler.spec.recurring.words import RunOutcome
from scheduler.states import EndReason, JobState
from tests.recurring import schedule_of
from tests.scenes import at
from tests.services.test_recurring import TEN, cluster, end, last_job, outcomes

pytestmark = pytest.mark.django_db
assert cluster, "its fixture"


def test_times_left_out_one_after_the_other_are_one_row_that_says_since_when(
    cluster, alice, project
):
    schedule = schedule_of(alice, project)
    for turn in range(1, 5):
        submit_due(now=at(turn * TEN))
    # Nobody looked for a while.
    submit_due(now=at(6 * TEN))
    assert outcomes(schedule) == ["submitted", "skipped"]
    first, run = last_job(schedule), schedule.runs.latest("due_at")
    assert run.due_at == at(6 * TEN)
    assert run.said == (
        f"Job {first.pk} of it still waits or runs. "
        "Stands for every time skipped since 20 Nov 2026, 12:20 UTC."
    )
    end(first)
    submit_due(now=at(7 * TEN))
    second = last_job(schedule)
    submit_due(now=at(8 * TEN))
    assert outcomes(schedule) == ["submitted", "skipped", "submitted", "skipped"]
    assert schedule.runs.latest("due_at").said == f"Job {second.pk} of it still waits or runs."


def test_a_resume_says_how_many_times_the_pause_has_left_out(cluster, alice, project):
    schedule = schedule_of(alice, project)
    pause_schedule(actor=alice, schedule=schedule, now=at(TEN - 1))
    resume_schedule(actor=alice, schedule=schedule, now=at(4 * TEN + 1))
    told = acts_on(alice, schedule).first()
    assert json.loads(told.after) == {"paused": False, "times_skipped": 4}
    assert not schedule.runs.exists()
    pause_schedule(actor=alice, schedule=schedule, now=at(4 * TEN + 2))
    resume_schedule(actor=alice, schedule=schedule, now=at(4 * TEN + 3))
    assert json.loads(acts_on(alice, schedule).first().after)["times_skipped"] == 0
    change_schedule(actor=alice, schedule=schedule, changes={"rule": "* * * * *"}, now=at(5 * TEN))
    pause_schedule(actor=alice, schedule=schedule, now=at(5 * TEN + 1))
    resume_schedule(actor=alice, schedule=schedule, now=at(10 * 86_400))
    told = acts_on(alice, schedule).first()
    assert json.loads(told.after)["times_skipped"] == "more than 1000"


def test_a_time_that_a_change_leaves_out_says_so(cluster, alice, project):
    schedule = schedule_of(alice, project)
    later = {"starts_at": at(5 * TEN)}
    change_schedule(actor=alice, schedule=schedule, changes=later, now=at(TEN + 20))
    run = schedule.runs.get()
    assert (run.due_at, run.outcome) == (at(TEN), "skipped")
    assert run.said == "The schedule was changed before anybody looked."


def test_its_owner_is_told_what_a_lead_did_with_it_and_why(
    cluster, root, alice, bob, lead, team, project
):
    schedule = schedule_of(alice, project)
    his = schedule_of(bob, project, name="His")
    pause_schedule(actor=alice, schedule=schedule, now=at(1))
    resume_schedule(actor=alice, schedule=schedule, now=at(2))
    assert not Notification.objects.exists()
    pause_schedule(actor=lead, schedule=schedule, reason="too dear", now=at(3))
    delete_schedule(actor=lead, schedule=schedule, reason="still too dear", now=at(4))
    told = list(Notification.objects.filter(person=alice).order_by("pk"))
    who = lead.get_full_name()
    assert [(one.title, one.text) for one in told] == [
        ("Nightly was paused", f"By {who}: too dear"),
        ("Nightly was deleted", f"By {who}: still too dear"),
    ]
    # What it is about is gone, and the word of it stays.
    assert [one.title for one in seen_by(alice, told)] == ["Nightly was deleted"]
    remove_member(actor=root, team=team, user=bob)
    delete_schedule(actor=lead, schedule=his, reason="he has left", now=at(5))
    assert not Notification.objects.filter(person=bob).exists()


def test_programs_are_not_told_the_names_in_it(cluster, root, alice, lead, project):
    add_webhook(actor=root, url="https://hooks.example.org/x", now=at(0))
    schedule, hers = schedule_of(alice, project), schedule_of(alice, project, name="Hers")
    pause_schedule(actor=lead, schedule=schedule, reason="too dear", now=at(3))
    end_access(actor=root, user=alice, reason="left", cancel_jobs=False, now=at(5))
    hers.refresh_from_db()
    assert alice.get_full_name() in hers.pause_reason
    take_up(Webhook.objects.get(), at(6))
    bodies = [json.loads(one) for one in Delivery.objects.values_list("body", flat=True)]
    assert {one["title"] for one in bodies} == {"Nightly was paused", "Hers is paused"}
    assert {one["text"] for one in bodies} == {""}


def test_a_time_that_was_missed_already_is_not_told_again_when_the_clock_goes_back(
    cluster, alice, project
):
    schedule = schedule_of(alice, project, rule="0 13 * * *", late_within_s=0)
    facts = {"at": at(3700), "outcome": RunOutcome.MISSED, "said": "too late"}
    JobScheduleRun.objects.create(schedule=schedule, due_at=at(3600), **facts)
    assert submit_due(now=at(3600 + 901)) == 0
    schedule.refresh_from_db()
    assert schedule.next_due_at == at(86_400 + 3600)
    assert not AuditEvent.objects.filter(action="schedule.trouble").exists()


def test_what_is_deleted_between_list_and_lock_is_nothing(cluster, alice, project):
    schedule = schedule_of(alice, project)
    number = schedule.pk
    delete_schedule(actor=alice, schedule=schedule)
    assert carry_out(number, now=at(TEN)) is None


def test_an_array_is_over_with_its_last_task_and_fails_with_any(cluster, alice, project):
    schedule = schedule_of(alice, project, pause_after=1, job={"array": "0-1"}, overlap="queue")
    submit_due(now=at(TEN))
    first, second = Job.objects.order_by("pk")
    end(first)
    assert ended_lately(alice, schedule) == []
    submit_due(now=at(2 * TEN))
    schedule.refresh_from_db()
    assert schedule.paused_at is None, "one task goes on"
    end(second, JobState.FAILED, EndReason.EXIT_CODE)
    assert [run.due_at for run in ended_lately(alice, schedule)] == [at(TEN)]
    submit_due(now=at(3 * TEN))
    schedule.refresh_from_db()
    assert schedule.paused_at == at(3 * TEN)
    assert "1 time in a row it failed or was refused" in schedule.pause_reason


def test_about_what_it_costs_is_told_by_those_that_ended_whatever_came_since(
    cluster, alice, project, django_assert_max_num_queries
):
    schedule = schedule_of(alice, project, overlap="queue", most_open=20)
    submit_due(now=at(TEN))
    end(last_job(schedule))
    for turn in range(2, 15):
        submit_due(now=at(turn * TEN))
    with django_assert_max_num_queries(5):
        lately = ended_lately(alice, schedule)
        costs = costs_of_runs(alice, lately, now=at(15 * TEN))
    assert ahead_of(schedule, lately, costs, now=at(15 * TEN)).mean_cost == 0


def test_which_variables_were_left_out_is_for_who_may_read_inside(
    cluster, root, alice, bob, lead, team, project
):
    schedule = schedule_of(alice, project, job={"env": {"API_TOKEN": "s3cret"}})
    remove_member(actor=root, team=team, user=alice)
    take_over(actor=lead, schedule=schedule, now=at(1))
    act = acts_on(bob, schedule).first()
    assert "API_TOKEN" in told_of(bob, schedule, act)[1]
    change_role(actor=root, team=team, user=bob, role=Role.FINANCE)
    him = type(bob).objects.get(pk=bob.pk)
    said = told_of(him, schedule, act)[1]
    assert "API_TOKEN" not in said and '"owner": "lead"' in said
