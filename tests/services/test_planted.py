"""The planted bug of cancels still reaches what it breaks; the others are in `tests/torture`."""

from __future__ import annotations

import pytest

from portal.torture import plants
from scheduler.services import jobs
from tests import scenes
from tests.scenes import at, ended, start, submit, sync

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_a_cancel_reaches_what_has_succeeded(monkeypatch, root, alice, project):
    cluster = scenes.build_cluster(root)
    monkeypatch.setattr(jobs, "cancel_job", jobs.cancel_job)
    plants.PLANTS["past-cancelled"].on_server()
    job = submit(alice, project)
    sync(cluster.node(1), ended(start(job, cluster.node(1))), now=at(5))
    job.refresh_from_db()
    assert job.state == "succeeded"
    jobs.cancel_job(actor=alice, job=job, now=at(500))
    job.refresh_from_db()
    assert job.state == "cancelled"
