"""The card of a failed job: class, evidence, advice, and who pays."""

from __future__ import annotations

import pytest
from django.urls import reverse

from scheduler.states import EndReason
from tests import scenes
from tests.scenes import ended, running, start, submit, sync

pytestmark = pytest.mark.django_db

LOG = b"step 1\n<script>alert(1)</script> CUDA out of memory.\n"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root)


def failed(cluster, alice, project, log: bytes, **fields):
    job = submit(alice, project, **fields)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    scenes.write_log(cluster.node(1), attempt, log)
    end = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1, log_size=len(log))
    sync(cluster.node(1), end)
    return job


def page_of(client, user, job) -> str:
    client.force_login(user)
    return client.get(reverse("jobs:detail", args=[job.pk])).content.decode()


def test_the_card_says_class_evidence_advice_and_cost(client, cluster, alice, project):
    job = failed(cluster, alice, project, LOG)
    page = page_of(client, alice, job)
    assert "What went wrong: not enough resources" in page
    assert f"/jobs/{job.pk}/logs/?attempt=1&amp;rank=0&amp;from_line=1#L2" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; CUDA out of memory." in page
    assert "<script>alert(1)" not in page
    assert "Use a smaller batch" in page
    assert "Not tried again: no retry was asked for. Its time is charged." in page


def test_a_guess_is_called_one(client, cluster, alice, project):
    job = failed(cluster, alice, project, b"GPU has fallen off the bus\n", retries=1)
    page = page_of(client, alice, job)
    assert "What went wrong: looks like a GPU failure" in page
    assert "no node reported it" in page
    assert "Tried again with one of the job&#x27;s own retries." in page


def test_who_may_not_read_the_log_sees_no_line_of_it(client, cluster, alice, finance, project):
    job = failed(cluster, alice, project, LOG)
    page = page_of(client, finance, job)
    assert "What went wrong: not enough resources" in page
    assert "alert(1)" not in page


def test_a_job_that_did_not_fail_has_no_card(client, cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), ended(attempt))
    assert "What went wrong" not in page_of(client, alice, job)


def test_evidence_of_a_log_that_is_no_longer_kept_leads_nowhere(client, cluster, alice, project):
    job = failed(cluster, alice, project, LOG)
    assert "Read the log" in page_of(client, alice, job)
    gone = {"log_pruned_at": scenes.at(90), "log_size": 0, "log_lines": 0}
    job.attempts.get().placements.update(**gone)
    page = page_of(client, alice, job)
    assert "CUDA out of memory" in page and "This log is no longer kept." in page
    assert "Read the log" not in page and "#L2" not in page
