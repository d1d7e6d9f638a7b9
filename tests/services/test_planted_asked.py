"""Planted bugs in what is asked for beforehand still reach what they break, and the nightly check
finds each in its rows; those that take a whole installation are found by `manage.py torture`."""

from __future__ import annotations

import sys
from datetime import datetime

import pytest

from accounts.statements import BuiltOnce
from portal.torture import plants
from scheduler.loop import reaping
from scheduler.models import Job
from scheduler.services.inbox import delivering
from scheduler.services.inbox import jobs as news_of_jobs
from scheduler.services.invariants import check_invariants
from scheduler.services.jobs import submit_job
from scheduler.services.placing import start_attempts
from scheduler.spec import parse_spec
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import TOKEN, at, ended, planned, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


@pytest.fixture
def planted():
    """Puts a bug in for the length of a test: whatever it replaced in the scheduler comes back."""
    rooms = [module for name, module in sys.modules.items() if name.startswith("scheduler.")]
    before = [(module, dict(vars(module))) for module in rooms]
    yield lambda name: plants.PLANTS[name].on_server()
    for module, names in before:
        for name, value in names.items():
            is_put_in = callable(value) or isinstance(value, BuiltOnce)
            if is_put_in and vars(module).get(name) is not value:
                setattr(module, name, value)


def fail(cluster, job, *, now, code=75, reason=EndReason.EXIT_CODE):
    attempt = start(job, cluster.node(1), now=at(now))
    sync(cluster.node(1), running(attempt), now=at(now + 1))
    code = code if reason is EndReason.EXIT_CODE else None
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=code), now=at(now + 5))
    job.refresh_from_db()


def found():
    return {words.partition(":")[0] for words in check_invariants(now=at(3600)).breaks}


def test_a_rule_beyond_its_number(cluster, alice, project, planted):
    planted("rule-unbounded")
    job = submit(alice, project, retry_rules="exit=75:1")
    for now in (60, 80):
        fail(cluster, job, now=now)
    assert job.state == "queued" and "I29" in found()


def test_a_wait_that_is_not_held(cluster, alice, project, planted):
    planted("wait-skipped")
    job = submit(alice, project, retry_rules="exit=75:2:wait=1m")
    fail(cluster, job, now=60)
    fail(cluster, job, now=70)
    assert "I29" in found()


def test_a_node_that_is_charged_to_the_job(cluster, alice, project, planted):
    planted("node-charged")
    job = submit(alice, project, retries=2)
    fail(cluster, job, now=60, reason=EndReason.NODE_LOST)
    assert job.user_retries_used == 1 and "I29" in found()


def test_a_start_too_late_for_its_moment(cluster, alice, project, planted):
    planted("moment-missed")
    moment = {"finish_by": at(900).isoformat(), "finish_by_policy": "cancel", "time_limit": "5m"}
    job = submit(alice, project, **moment)
    assert start_attempts([planned(job, cluster.node(1))], lease_token=TOKEN, now=at(700))
    assert reaping.keep_moments(now=at(700)) == 0 and "I30" in found()


def test_a_task_before_the_one_of_its_index(cluster, alice, project, planted):
    planted("partner-unawaited")
    asked = {"project": project.path, "script": "x", "array": "0-1"}
    first = submit_job(actor=alice, spec=parse_spec({"name": "a", **asked}), now=at(0)).job
    waits = {"name": "b", "depends_on": f"aftercorr:set={first.job_set_id}", **asked}
    submit_job(actor=alice, spec=parse_spec(waits), now=at(1))
    task = Job.objects.get(name="b", array_index=1)
    assert task.state == "queued"
    start(task, cluster.node(1), now=at(10))
    assert "I31" in found()


def test_a_stop_without_a_warning(cluster, alice, project, planted):
    planted("rest-unwarned")
    job = submit(alice, project)
    attempt = start(job, cluster.node(1), now=at(10))
    sync(cluster.node(1), running(attempt), now=at(11))
    reaping.keep_moments(now=at(60))
    stopped = ended(attempt, reason=EndReason.PREEMPTED, exit_code=143)
    sync(cluster.node(1), stopped, now=at(70))
    attempt.refresh_from_db()
    assert attempt.end_reason == "idle_stopped" and "I32" in found()


def test_a_chat_is_told_again_and_a_notice_shows_a_secret(monkeypatch, planted):
    """They reach what they break; only a run sees the chat."""
    looked: list[datetime] = []
    monkeypatch.setattr(delivering, "take_up_channels", lambda *, now: looked.append(now))
    planted("told-twice")
    delivering.take_up_channels(now=at(0))
    assert looked == [at(0)]
    planted("secret-told")
    assert news_of_jobs.tell.__name__ == "aloud"
