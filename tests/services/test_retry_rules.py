"""What a job's own retry rules make of the ends of its attempts."""

from __future__ import annotations

import pytest

from accounts.errors import Forbidden
from scheduler.selectors.jobs import end_sentence_of, job_actions, wait_sentence_of
from scheduler.selectors.one_job.ruling import try_rules
from scheduler.selectors.triage import latest_diagnosis
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.holding.letting_go import release_due
from scheduler.services.holding.obstacles import obstacles_of
from scheduler.services.jobs import submit_job
from scheduler.spec import parse_spec
from scheduler.spec.retrying.rules import read_rules
from scheduler.states import EndReason, JobState, WaitReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=4)


def fail(cluster, job, *, now=60, code=1, reason=EndReason.EXIT_CODE, log=b"", detail=""):
    """One attempt that begins at `now` and fails ten seconds later; returns when."""
    attempt = start(job, cluster.node(1), now=at(now))
    sync(cluster.node(1), running(attempt), now=at(now + 1))
    if log:
        scenes.write_log(cluster.node(1), attempt, log)
    code = code if reason is EndReason.EXIT_CODE else None
    end = ended(attempt, reason=reason, exit_code=code, log_size=len(log), detail=detail)
    sync(cluster.node(1), end, now=at(now + 10))
    job.refresh_from_db()
    return now + 10


def test_a_rule_tries_again_by_its_own_number_and_leaves_the_jobs_retries(cluster, alice, project):
    job = submit(alice, project, retries=1, retry_rules="exit=75:2")
    queued_at, now = job.queued_at, 60
    for number in (1, 2):
        now = fail(cluster, job, now=now, code=75)
        assert (job.state, job.queued_at, job.user_retries_used) == ("queued", queued_at, 0)
        assert f"Rule 1 (exit code 75) tries it again, {number} of 2." in end_sentence_of(job)
    found = latest_diagnosis(alice, job)
    assert found.then == "rule" and found.rule["number"] == 1
    assert found.retry == ("Tried again by rule 1 (exit code 75), 2 of 2. Its time is charged.")
    # Another end is no matter of the rule: what is usual follows.
    now = fail(cluster, job, now=now, code=1)
    assert (job.state, job.user_retries_used) == (JobState.QUEUED, 1)
    assert "Rule" not in end_sentence_of(job)
    assert "No retry rule of the job meets it." in latest_diagnosis(alice, job).retry
    fail(cluster, job, now=now, code=75)
    assert job.state == JobState.FAILED
    said = "Rule 1 (exit code 75) has tried it again 2 times, as often as it may."
    assert said in end_sentence_of(job)
    assert latest_diagnosis(alice, job).retry.startswith("Not tried again: rule 1 (exit code 75)")


def test_a_rule_that_stops_ends_the_job_at_once(cluster, alice, project):
    job = submit(alice, project, retries=5, retry_rules="failure=user_resource:stop\nexit=137:3")
    fail(cluster, job, reason=EndReason.OUT_OF_MEMORY)
    assert (job.state, job.user_retries_used) == (JobState.FAILED, 0)
    said = "Rule 1 (not enough resources) does not let it be tried again."
    assert said in end_sentence_of(job)
    found = latest_diagnosis(alice, job)
    assert (found.then, found.rule["does"]) == ("", "stop")
    assert found.retry == (
        "Not tried again: rule 1 (not enough resources) says so. Its time is charged."
    )


def test_the_wait_is_a_hold_with_a_time_and_a_sentence_and_doubles(cluster, alice, project):
    job = submit(alice, project, retry_rules="exit=9:5\nexit=75:5:wait=1m..3m")
    queued_at, now, waits = job.queued_at, 60, []
    for _ in range(3):
        now = fail(cluster, job, now=now, code=75)
        assert (job.state, job.wait_reason) == (JobState.HELD, WaitReason.RETRY_PAUSE)
        waits.append((job.begin_at - at(now)).total_seconds())
        if len(waits) == 1:
            assert wait_sentence_of(job) == (
                "Tries again at 20 Nov 2026, 12:02:10 UTC, after a wait of 1 min; "
                "rule 2: exit code 75."
            )
            said = latest_diagnosis(alice, job).retry
            assert said.startswith("Tried again after a pause of 1 min by rule 2 (exit code 75)")
        assert release_due(now=at(now + waits[-1] - 1)) == 0
        assert release_due(now=job.begin_at) == 1
        now += waits[-1]
        job.refresh_from_db()
    assert waits == [60, 120, 180]
    assert (job.state, job.queued_at) == (JobState.QUEUED, queued_at)


def test_a_release_cuts_the_wait_short_and_a_hold_in_between_keeps_it(cluster, alice, project):
    job = submit(alice, project, retry_rules="exit=1:1:wait=1h")
    over = fail(cluster, job)
    assert {"hold", "release"} <= job_actions(alice, job)
    job = hold_job(actor=alice, job=job, now=at(over + 1))
    job = release_job(actor=alice, job=job, now=at(over + 2))
    assert job.wait_reason == WaitReason.RETRY_PAUSE
    job = release_job(actor=alice, job=job, now=at(over + 3))
    assert (job.state, job.begin_at) == (JobState.QUEUED, None)
    assert obstacles_of([job], now=at(over + 3)) == {job.pk: None}


def test_failures_of_nodes_spend_no_rule_and_may_only_be_stopped(cluster, alice, project):
    free = submit(alice, project, retry_rules="failure=infra_gpu:1:wait=1h\nfailure=infra_gpu:stop")
    for number in (1, 2):
        fail(cluster, free, now=60 * number, reason=EndReason.DEVICE_FAILED)
        assert (free.state, free.free_retries_used) == (JobState.QUEUED, number)
        assert (free.user_retries_used, "rule" in free.end_facts) == (0, False)
    stopped = submit(alice, project, retries=3, retry_rules="failure=infra_gpu:stop")
    fail(cluster, stopped, now=300, reason=EndReason.DEVICE_FAILED)
    assert (stopped.state, stopped.free_retries_used) == (JobState.FAILED, 0)
    assert "Rule 1 (GPU failure) does not let it be tried again." in end_sentence_of(stopped)
    assert latest_diagnosis(alice, stopped).retry.endswith("Its time is not charged.")


def test_what_only_the_log_says_of_a_node_is_a_rules_own_matter(cluster, alice, project):
    job = submit(alice, project, retry_rules="failure=infra_gpu:1:wait=5m")
    log = b"step 1\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    fail(cluster, job, log=log)
    assert (job.state, job.free_retries_used) == (JobState.HELD, 0)
    assert job.wait_reason == WaitReason.RETRY_PAUSE


def test_a_line_of_the_log_decides_and_is_not_repeated(cluster, alice, project):
    job = submit(alice, project, retry_rules="1:log=port already taken\nexit=1:stop")
    log = b"hello\n" * 300 + b"\x1b[31mport already\x1b[0m taken: 29500\n" + b"bye\n" * 10
    fail(cluster, job, log=log)
    assert job.state == JobState.QUEUED
    assert "Rule 1 (a line of its log) tries it again, 1 of 1." in end_sentence_of(job)
    assert "taken" not in str(job.end_facts)
    old = submit(alice, project, retry_rules="1:log=port already taken")
    fail(cluster, old, now=120, log=b"port already taken\n" + b"step\n" * 200)
    assert old.state == JobState.FAILED


def test_a_time_limit_goes_on_where_a_rule_names_it(cluster, alice, project):
    job = submit(alice, project, retry_rules="failure=timeout:2")
    fail(cluster, job, reason=EndReason.TIME_LIMIT)
    assert job.state == JobState.QUEUED
    said = end_sentence_of(job)
    assert said.startswith("The time limit of 1 h was reached. Rule 1 (time limit) tries it again")
    assert "Clone" not in said


def test_each_task_of_an_array_has_its_own_tries(cluster, alice, project):
    spec = parse_spec(
        {"name": "sweep", "project": project.path, "command": "x", "array": "0-1",
         "retry_rules": "exit=75:1"}
    )  # fmt: skip
    made = submit_job(actor=alice, spec=spec, now=at(0)).job.job_set
    first, second = made.tasks.order_by("array_index")
    fail(cluster, first, now=60, code=75)
    fail(cluster, second, now=90, code=75)
    assert {first.state, second.state} == {JobState.QUEUED}
    fail(cluster, first, now=120, code=75)
    assert (first.state, second.state) == (JobState.FAILED, JobState.QUEUED)


def test_rules_are_tried_on_ended_attempts_and_change_nothing(cluster, alice, finance, project):
    job = submit(alice, project, retries=2)
    now = fail(cluster, job, code=75, log=b"lost the lock\n")
    fail(cluster, job, now=now, reason=EndReason.DEVICE_FAILED)
    rules = read_rules("exit=1:1\n2:wait=1m:log=the lock\nfailure=infra_gpu:3")
    first, second = try_rules(alice, job, rules)
    assert (first.attempt, first.rule, first.action) == (1, 2, "retry")
    assert first.words == "Rule 2 (a line of its log): tried again after 1m, twice at most."
    assert (second.rule, second.action) == (3, "retry")
    assert "Trainyard tries it again for free" in second.words
    (none,) = try_rules(alice, job, read_rules("exit=3:stop"), most=1)
    assert (none.rule, none.action) == (None, "")
    assert none.words == "No rule meets it: what is usual follows."
    assert job.state == JobState.QUEUED
    with pytest.raises(Forbidden):
        try_rules(finance, job, rules)
