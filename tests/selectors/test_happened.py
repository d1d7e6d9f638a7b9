"""Of an attempt's checkpoints the first and the newest are told, on every face alike."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Attempt, JobEvent
from scheduler.selectors.one_job.happened import job_events
from scheduler.selectors.one_job.header import job_with_header
from tests import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


@pytest.fixture
def job(cluster, alice, project):
    return scenes.submit(alice, project)


def save(job, number: int, steps: range, *, newest: int | None = None) -> None:
    """An attempt with these checkpoints, one a minute; the newest one may be a little younger."""
    began = timezone.now() - timedelta(hours=5 - number)
    attempt = Attempt.objects.create(
        job=job,
        number=number,
        state="ended",
        assigned_at=began,
        started_at=began,
        ended_at=began + timedelta(minutes=50),
        checkpoint_at=began + timedelta(minutes=len(steps), seconds=5),
        checkpoint_step=newest or steps[-1],
        checkpoint_bytes=2048,
    )
    for minute, step in enumerate(steps):
        detail = {"attempt": number, "step": step, "bytes": 1024}
        at = began + timedelta(minutes=minute)
        JobEvent.objects.create(job=job, attempt=attempt, at=at, kind="checkpoint", detail=detail)
    JobEvent.objects.create(job=job, attempt=attempt, at=began + timedelta(hours=1), kind="retried")


def steps_of(rows) -> list[int]:
    return [row["detail"]["step"] for row in rows if row["kind"] == "checkpoint"]


def test_the_first_and_the_newest_of_each_attempt(client, alice, job):
    save(job, 1, range(100, 6100, 100), newest=6050)
    save(job, 2, range(6100, 6200, 100), newest=6150)
    save(job, 3, range(6200, 6300, 100))
    client.force_login(alice)
    rows = client.get(f"/api/v1/jobs/{job.pk}/events/").json()["items"]
    assert steps_of(rows) == [100, 6000, 6100, 6200]
    first, last, second, third = (row["detail"] for row in rows if row["kind"] == "checkpoint")
    assert first == {"attempt": 1, "step": 100, "bytes": 1024}
    assert (last["times"], last["newest_step"], last["newest_bytes"]) == (60, 6050, 2048)
    assert (second["times"], second["newest_step"]) == (1, 6150)
    assert third["times"] == 1 and third["newest_at"].endswith("+00:00")
    for page in (reverse("jobs:events", args=[job.pk]), reverse("jobs:detail", args=[job.pk])):
        text = client.get(page).content.decode()
        assert "step 6,050, 2 KiB, 60 told, one a minute at most" in text, page
        assert text.count("Newest checkpoint") == 1 and text.count("Checkpoint confirmed") == 3
        assert "step 6,100, 1 KiB, the newest is of step 6,150" in text
        # The one that says all there is.
        assert "step 6,200, 1 KiB</span>" in text


def test_the_header_has_as_many_as_the_list_and_charts_have_all(alice, job):
    save(job, 1, range(90))
    every = job.events.count()
    header = job_with_header(alice, job.pk, events=500)
    told = list(job_events(alice, job).reverse())
    assert header.events_count == len(told) == every - 88
    assert [one.pk for one in header.events] == [one.pk for one in told]
    for mine, listed in zip(header.events, told, strict=True):
        for name in ("times_", "newest_step_", "newest_bytes_", "newest_at_"):
            assert getattr(mine, name) == getattr(listed, name)
    whole = job_with_header(alice, job.pk, events=500, checkpoints=True)
    assert len(whole.events) == every and whole.events_count == len(told)


def test_a_job_without_any_and_a_stranger(client, alice, carol, job):
    assert [one.kind for one in job_events(alice, job)] == ["submitted"]
    client.force_login(carol)
    assert client.get(f"/api/v1/jobs/{job.pk}/events/").status_code == 404
    assert client.get(reverse("jobs:events", args=[job.pk])).status_code == 404
