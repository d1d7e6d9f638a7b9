"""Reasons written for many at once: only what changed, only where a job still waits."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Job, StartForecast
from scheduler.services.jobs import cancel_job
from scheduler.services.waits import MAX_ROWS, record_waits
from scheduler.states import WaitReason
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db
ODD = {"need": "1 GPU", "free": 0, "why": "a 'quoted' \\ % text, ü", "at": None, "list": [1, 2.5]}


def test_every_row_gets_its_own_facts(cluster, alice, project):
    jobs = [submit(alice, project) for _ in range(3)]
    waits = [(job.pk, WaitReason.CAPACITY_BUSY, {**ODD, "ahead": job.pk}) for job in jobs]
    assert record_waits(waits, now=at(5)) == 3
    for job in jobs:
        job.refresh_from_db()
        assert (job.wait_reason, job.wait_checked_at) == ("capacity_busy", at(5))
        assert job.wait_facts == {**ODD, "ahead": job.pk}
    assert record_waits(waits, now=at(6)) == 0
    assert not Job.objects.filter(wait_checked_at=at(6)).exists()


def test_a_job_that_no_longer_waits_is_left_alone(cluster, alice, project):
    job = submit(alice, project)
    cancel_job(actor=alice, job=job, now=at(1))
    assert record_waits([(job.pk, WaitReason.CAPACITY_BUSY, ODD)], now=at(2)) == 0
    job.refresh_from_db()
    assert (job.wait_reason, job.wait_facts) == ("", {})


def test_statements_grow_with_batches_not_with_jobs(cluster, alice, project):
    def statements(count: int, moment: float) -> int:
        jobs = [submit(alice, project) for _ in range(count)]
        with CaptureQueriesContext(connection) as seen:
            waits = [(job.pk, WaitReason.CAPACITY_BUSY, ODD) for job in jobs]
            assert record_waits(waits, now=at(moment)) == count
        return len(seen)

    assert statements(2, 1) == statements(20, 2)
    assert MAX_ROWS * 3 < 32_766


def test_what_a_job_is_told_first_is_kept(cluster, alice, project):
    job = submit(alice, project)
    noon = int(at(0).timestamp())
    told = {"start_p50_at": noon + 600, "start_p90_at": noon + 1200}
    record_waits([(job.pk, WaitReason.CAPACITY_BUSY, told)], now=at(5))
    record_waits([(job.pk, WaitReason.CAPACITY_BUSY, {"start_p90_at": noon + 60})], now=at(6))
    kept = StartForecast.objects.get()
    assert (kept.job_id, kept.told_at, kept.p50_at, kept.p90_at) == (
        job.pk,
        at(5),
        at(600),
        at(1200),
    )
