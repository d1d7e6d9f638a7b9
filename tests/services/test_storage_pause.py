"""Whose storage failed waits before it is tried again, longer each time, and says until when."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.urls import reverse

from accounts.services import issue_token
from scheduler.selectors.jobs import job_actions, wait_sentence_of
from scheduler.selectors.triage import latest_diagnosis
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.holding.following import overdue
from scheduler.services.holding.letting_go import release_due
from scheduler.states import EndReason, JobState, WaitReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db

BROKEN = b"step 1\nOSError: [Errno 5] Input/output error: '/data/shard-3'\n"
FULL = "the spool: [Errno 28] No space left on device"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


def fail(cluster, job, *, now, log=b"", reason=EndReason.START_FAILED, detail=FULL):
    """One attempt that begins at `now` and fails ten seconds later; returns when."""
    attempt = start(job, cluster.node(1), now=at(now))
    sync(cluster.node(1), running(attempt), now=at(now + 1))
    if log:
        scenes.write_log(cluster.node(1), attempt, log)
    code = 1 if reason is EndReason.EXIT_CODE else None
    end = ended(attempt, reason=reason, exit_code=code, log_size=len(log), detail=detail)
    sync(cluster.node(1), end, now=at(now + 10))
    job.refresh_from_db()
    return now + 10


def fail_in_its_log(cluster, job, *, now):
    return fail(cluster, job, now=now, log=BROKEN, reason=EndReason.EXIT_CODE, detail="")


def test_a_failure_that_the_node_reports_is_tried_again_after_a_pause_in_its_old_place(
    cluster, alice, project
):
    job = submit(alice, project)
    queued_at = job.queued_at
    over = fail(cluster, job, now=60)
    assert (job.state, job.wait_reason) == (JobState.HELD, WaitReason.STORAGE_PAUSE)
    assert wait_sentence_of(job) == (
        "Storage failed on node n1; tried again at 20 Nov 2026, 12:01:40 UTC, after a pause of "
        "30 s."
    )
    assert release_due(now=at(over + 29)) == 0
    assert release_due(now=at(over + 30)) == 1
    job.refresh_from_db()
    assert (job.state, job.queued_at) == (JobState.QUEUED, queued_at)
    assert (job.free_retries_used, job.user_retries_used) == (1, 0)
    assert overdue(at(over + 3600)) == []


def test_the_pause_grows_with_each_failure_in_a_row_up_to_a_bound(cluster, alice, project):
    job, now, pauses = submit(alice, project, retries=8), 60.0, []
    for _ in range(7):
        now = fail_in_its_log(cluster, job, now=now)
        pauses.append((job.begin_at - at(now)).total_seconds())
        release_due(now=job.begin_at)
        now += pauses[-1]
    assert pauses == [30, 60, 120, 240, 480, 480, 480]
    assert job.user_retries_used == 7
    now = fail(cluster, job, now=now, reason=EndReason.DEVICE_FAILED, detail="")
    assert job.state == JobState.QUEUED
    now = fail_in_its_log(cluster, job, now=now)
    assert (job.begin_at - at(now)).total_seconds() == 30


def test_what_only_the_log_says_is_told_as_such_and_uses_the_jobs_own_retries(
    cluster, alice, project
):
    job = submit(alice, project, retries=2)
    now = fail_in_its_log(cluster, job, now=60)
    release_due(now=at(now + 30))
    fail_in_its_log(cluster, job, now=now + 30)
    assert wait_sentence_of(job).startswith("Its log tells of failing storage, 2 times in a row;")
    assert (job.user_retries_used, job.free_retries_used) == (2, 0)
    said = latest_diagnosis(alice, job).retry
    assert said.startswith("Tried again after a pause of 1 min with one of the job's own retries.")


def test_without_another_attempt_there_is_no_pause(cluster, alice, project):
    job = submit(alice, project)
    fail_in_its_log(cluster, job, now=60)
    assert (job.state, job.wait_reason, job.begin_at) == (JobState.FAILED, "", None)
    assert "pause_s" not in job.end_facts


def test_other_failures_are_tried_again_at_once(cluster, alice, project):
    job = submit(alice, project)
    fail(cluster, job, now=60, detail="the agent failed: ValueError()")
    assert (job.state, job.begin_at) == (JobState.QUEUED, None)


def test_an_operator_may_want_no_pause(cluster, alice, project, settings):
    settings.TRAINYARD = {**settings.TRAINYARD, "storage_pause_s": 0}
    job = submit(alice, project)
    fail(cluster, job, now=60)
    assert (job.state, job.begin_at) == (JobState.QUEUED, None)


def test_a_release_cuts_the_pause_short_and_a_hold_in_between_keeps_it(cluster, alice, project):
    job = submit(alice, project)
    over = fail(cluster, job, now=60)
    assert {"hold", "release"} <= job_actions(alice, job)
    job = hold_job(actor=alice, job=job, now=at(over + 1))
    assert job.wait_reason == WaitReason.HELD_BY_USER
    job = release_job(actor=alice, job=job, now=at(over + 2))
    assert job.wait_reason == WaitReason.STORAGE_PAUSE
    job = release_job(actor=alice, job=job, now=at(over + 3))
    assert (job.state, job.begin_at) == (JobState.QUEUED, None)


def test_page_rest_and_operators_command_say_until_when(client, cluster, alice, project, capsys):
    job = submit(alice, project)
    fail(cluster, job, now=60)
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "tried again at 20 Nov 2026, 12:01:40 UTC, after a pause of 30 s." in page
    assert "release it to try at once" in page
    assert "not before" in page
    _, secret = issue_token(actor=alice, name="t", scopes=["jobs:read"], expires_in_days=1)
    told = client.get(
        f"/api/v1/jobs/{job.pk}/", headers={"authorization": f"Bearer {secret}"}
    ).json()
    assert told["wait"]["reason"] == "storage_pause"
    assert "after a pause of 30 s" in told["wait"]["sentence"]
    call_command("explain_job", str(job.pk))
    assert "Storage failed on node n1; tried again at" in capsys.readouterr().out
