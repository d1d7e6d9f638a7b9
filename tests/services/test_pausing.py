"""Pause and resume by hand: the work is saved, the devices are free, the place is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.urls import reverse

from scheduler.models import Allocation, Job, Node
from scheduler.selectors.finding import find_by_name
from scheduler.selectors.jobs import job_actions, shown_state_of, wait_sentence_of
from scheduler.services.changing.by_hand import hold_job, pause_job, release_job
from scheduler.services.errors import Conflict, Forbidden, StaleVersion
from scheduler.services.jobs import cancel_job
from scheduler.services.stopping import request_stop
from scheduler.states import EndReason, shown_state, wait_sentence
from scheduler.wire.messages import Checkpoint
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.seconding import WHY

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


@pytest.fixture
def job(cluster, alice, project):
    return submit(alice, project)


@pytest.fixture
def attempt(cluster, job):
    attempt = start(job, cluster.node(1))
    report = replace(running(attempt), started_at=at(0).timestamp())
    sync(cluster.node(1), report, now=at(0))
    job.refresh_from_db()
    return attempt


def stopped(cluster, attempt, job, *, now, reason=EndReason.PAUSED_BY_USER, **fields):
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=0, **fields), now=at(now))
    job.refresh_from_db()


def test_a_paused_job_is_held_in_its_old_place_with_its_gpus_free(cluster, job, attempt, alice):
    pause_job(actor=alice, job=job, now=at(100))
    (assignment,) = sync(cluster.node(1), now=at(100)).assignments
    assert assignment.stop is not None
    saved = Checkpoint("/c/step-5", 5, 10, "ab" * 32, at(101).timestamp())
    stopped(cluster, attempt, job, now=103, checkpoint=saved)
    assert (job.state, job.wait_reason, job.queued_at) == ("held", "paused", at(0))
    assert shown_state_of(job) == "paused"
    assert not Allocation.objects.filter(released_at__isnull=True).exists()
    sentence = wait_sentence(job.wait_reason, job.wait_facts)
    assert sentence == (
        f"Paused by {alice.get_full_name()}. Lost 2 s of work; it resumes from step 5. "
        "Resume it to let it go on in its old place."
    )
    assert job_actions(alice, job) >= {"release", "cancel"}

    job = release_job(actor=alice, job=job, now=at(500))
    assert (job.state, job.queued_at) == ("queued", at(0))
    again = start(job, cluster.node(1), now=at(501))
    assert again.resumes_id == attempt.pk
    assert (job.user_retries_used, job.free_retries_used) == (0, 0)


@pytest.mark.parametrize("who", ["alice", "operator"])
def test_the_word_follows_the_last_act(cluster, job, attempt, alice, operator, client, who):
    """Paused, let go and held since, a job is held; also where an operator did both."""
    actor = {"alice": alice, "operator": operator}[who]
    why = {"reason": "new disks"} if actor == operator else {}
    pause_job(actor=actor, job=job, now=at(100), **why)
    by = EndReason.PAUSED_BY_ADMIN if actor == operator else EndReason.PAUSED_BY_USER
    stopped(cluster, attempt, job, now=103, reason=by)

    def words() -> set[str]:
        (found,) = find_by_name(alice, job.name).jobs
        shown = shown_state(found.state, found.end_reason)
        return {shown_state_of(Job.objects.get()), shown}

    assert words() == {"paused"}
    release_job(actor=actor, job=job, now=at(500), **why)
    assert words() == {"queued"}
    job = hold_job(actor=actor, job=job, now=at(501), **why)
    assert words() == {"held"} and "paus" not in wait_sentence_of(job).lower()
    # How its attempt ended is known as before.
    assert job.end_reason == by
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert ">held<" in page.replace(" ", "") and "Resume" not in page


def test_an_operators_hold_of_a_paused_job_is_a_hold(cluster, job, attempt, alice, operator):
    pause_job(actor=alice, job=job, now=at(100))
    stopped(cluster, attempt, job, now=103)
    assert shown_state_of(hold_job(actor=operator, job=job, reason="new disks")) == "held"


def test_an_agent_of_protocol_1_is_told_a_reason_it_knows(cluster, job, attempt, alice):
    pause_job(actor=alice, job=job, now=at(100))
    (old,) = sync(cluster.node(1), now=at(100)).assignments
    Node.objects.update(protocol=2)
    (new,) = sync(Node.objects.get(), now=at(100), protocol=2).assignments
    assert (old.stop.reason, new.stop.reason) == (EndReason.PREEMPTED, EndReason.PAUSED_BY_USER)
    stopped(cluster, attempt, job, now=103, reason=EndReason.PREEMPTED)
    assert (job.state, job.end_reason) == ("held", "paused_by_user")


def test_what_an_operator_pauses_only_an_operator_resumes(cluster, job, attempt, alice, operator):
    pause_job(actor=operator, reason=WHY, job=job, now=at(100))
    stopped(cluster, attempt, job, now=103)
    assert (job.state, job.wait_reason) == ("held", "held_by_admin")
    assert "release" not in job_actions(alice, job)
    assert "release" in job_actions(operator, job)
    with pytest.raises(Forbidden):
        release_job(actor=alice, job=job)
    assert release_job(actor=operator, reason=WHY, job=job).state == "queued"


def test_an_operators_pause_or_hold_takes_the_place_of_the_users_own(
    cluster, job, attempt, alice, operator
):
    pause_job(actor=alice, job=job, now=at(100))
    pause_job(actor=operator, reason=WHY, job=job, now=at(101))
    pause_job(actor=alice, job=job, now=at(102))  # changes nothing any more
    stopped(cluster, attempt, job, now=103)
    assert (job.state, job.wait_reason) == ("held", "held_by_admin")
    release_job(actor=operator, reason=WHY, job=job, now=at(104))
    hold_job(actor=alice, job=job, now=at(105))
    hold_job(actor=operator, reason=WHY, job=job, now=at(106))
    job.refresh_from_db()
    assert job.wait_reason == "held_by_admin" and job.wait_facts["who"] == operator.get_full_name()
    with pytest.raises(Forbidden):
        release_job(actor=alice, job=job)


def test_who_has_no_say_may_not_pause(job, attempt, carol):
    with pytest.raises(Forbidden):
        pause_job(actor=carol, job=job)


def test_a_waiting_job_is_held_and_an_ended_one_refused(cluster, job, alice):
    pause_job(actor=alice, job=job)
    job.refresh_from_db()
    assert (job.state, job.wait_reason) == ("held", "held_by_user")
    cancel_job(actor=alice, job=job)
    with pytest.raises(Conflict):
        pause_job(actor=alice, job=job)


def test_pausing_twice_is_once_and_an_old_version_is_refused(job, attempt, alice):
    with pytest.raises(StaleVersion):
        pause_job(actor=alice, job=job, version=job.version + 1)
    pause_job(actor=alice, job=job, now=at(5))
    pause_job(actor=alice, job=job, now=at(6))
    assert job.events.filter(kind="stop_requested").count() == 1


def test_a_pause_wins_over_preemption_and_a_cancel_over_both(cluster, job, attempt, alice):
    attempt.job = job
    request_stop(attempt=attempt, reason=EndReason.PREEMPTED, now=at(1))
    pause_job(actor=alice, job=job, now=at(2))
    attempt.refresh_from_db()
    assert attempt.stop_reason == "paused_by_user"
    assert not request_stop(attempt=attempt, reason=EndReason.PREEMPTED, now=at(3))
    cancel_job(actor=alice, job=job, now=at(4))
    with pytest.raises(Conflict):
        pause_job(actor=alice, job=job, now=at(5))
    stopped(cluster, attempt, job, now=6, reason=EndReason.PREEMPTED)
    assert job.state == "cancelled"
    told = [(one.actor, one.detail.get("reason")) for one in job.events.order_by("pk")]
    assert told[-3:-1] == [(alice, "paused_by_user"), (alice, "cancelled_by_user")]


def test_a_program_that_finishes_first_has_succeeded(cluster, job, attempt, alice):
    pause_job(actor=alice, job=job, now=at(100))
    sync(cluster.node(1), ended(attempt), now=at(101))
    job.refresh_from_db()
    assert job.state == "succeeded"
