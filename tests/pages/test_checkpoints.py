"""What is saved, what is at risk, what was lost: on the job's page; and the button that pauses."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.states import EndReason
from scheduler.wire.messages import Checkpoint
from tests import scenes
from tests.scenes import ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root)


@pytest.fixture
def job(cluster, alice, project):
    job = submit(alice, project, now=timezone.now())
    start(job, cluster.node(1), now=timezone.now())
    return job


def tell(cluster, job, **fields):
    attempt = job.attempts.latest("number")
    now = timezone.now()
    report = replace(running(attempt), started_at=now.timestamp(), **fields)
    sync(cluster.node(1), report, now=now)
    job.refresh_from_db()
    return attempt


def saved(step):
    return Checkpoint(f"/c/<b>{step}", step, 2048, "ab" * 32, timezone.now().timestamp())


def page_of(client, user, job) -> str:
    client.force_login(user)
    return client.get(reverse("jobs:detail", args=[job.pk])).content.decode()


def test_the_page_says_what_is_saved_and_what_is_wrong(client, cluster, alice, finance, job):
    tell(cluster, job, checkpoint=saved(40))
    tell(cluster, job, checkpoint_problem="step-50 has <i>3</i> bytes")
    page = page_of(client, alice, job)
    assert "step 40" in page and "/c/&lt;b&gt;40" in page and "on n1" in page
    assert page.count("step 40, 2 KiB") == 2, "at the head, and among the events"
    assert "step-50 has &lt;i&gt;3&lt;/i&gt; bytes" in page and "Step 40 still counts." in page
    pause = client.get(reverse("jobs:change", args=[job.pk]), {"pause": 1}).content.decode()
    assert "Saved so far: step 40." in pause
    outside = page_of(client, finance, job)
    assert "step 40" in outside
    assert "/c/" not in outside and "step-50" not in outside


def test_the_button_pauses_and_the_page_offers_to_resume(client, cluster, alice, job):
    attempt = tell(cluster, job, checkpoint=saved(40))
    client.force_login(alice)
    answer = client.post(reverse("jobs:pause", args=[job.pk]), follow=True)
    assert "was asked to save its work" in answer.content.decode()
    sync(cluster.node(1), ended(attempt, reason=EndReason.PREEMPTED), now=timezone.now())
    job.refresh_from_db()
    assert job.state == "held"
    page = page_of(client, alice, job)
    assert "Paused by" in page and "it resumes from step 40" in page
    assert "</svg>Resume</button>" in page
    client.post(reverse("jobs:release", args=[job.pk]))
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_stranger_cannot_pause(client, carol, job):
    client.force_login(carol)
    assert client.post(reverse("jobs:pause", args=[job.pk])).status_code == 404


def test_where_it_resumed_from_or_why_not_is_said(client, cluster, alice, job):
    tell(cluster, job, resume_problem="step-9: No such file")
    assert "<dt>Started anew</dt><dd>step-9: No such file</dd>" in page_of(client, alice, job)
    tell(cluster, job, resumed_from="/c/step-9", resumed_step=9)
    page = page_of(client, alice, job)
    assert "Resumed from" in page and "/c/step-9" in page and "Started anew" not in page


def test_work_that_was_lost_is_summed_over_all_stops(client, cluster, alice, project):
    """Preempted after twelve minutes without a checkpoint, then five minutes after one."""
    noon = scenes.NOON
    job = submit(alice, project, gpus_per_node=2, now=noon)
    first = start(job, cluster.node(1), now=noon)
    sync(cluster.node(1), running(first), now=noon)
    assert "Work lost" not in page_of(client, alice, job)
    preempted = {"reason": EndReason.PREEMPTED, "exit_code": None}
    sync(cluster.node(1), ended(first, **preempted), now=noon + 12 * MINUTE)
    page = page_of(client, alice, job)
    assert "Lost 12 min of work; it starts anew." in page
    assert "<dt>Work lost</dt><dd>12 min</dd>" in page and "at one stop" in page
    assert "24 min of GPU time" in page
    second = start(job, cluster.node(1), now=noon + 20 * MINUTE)
    kept = replace(saved(70), taken_at=(noon + 30 * MINUTE).timestamp())
    for now, report in ((20, running(second)), (30, running(second, checkpoint=kept))):
        sync(cluster.node(1), report, now=noon + now * MINUTE)
    sync(cluster.node(1), ended(second, **preempted), now=noon + 35 * MINUTE)
    page = page_of(client, alice, job)
    assert "Lost 5 min of work; it resumes from step 70." in page
    assert "<dt>Work lost</dt><dd>17 min</dd>" in page and "at 2 stops" in page
    assert "34 min of GPU time" in page
