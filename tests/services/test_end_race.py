"""A cancel and the last byte of a log at once: whoever comes second sees what the first one did."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, connections, transaction

from scheduler.services.jobs import cancel_job
from scheduler.states import JobState
from tests import scenes
from tests.locks import wait_until_somebody_waits
from tests.scenes import at, ended, running, start, submit, sync


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
def test_a_job_cancelled_while_its_end_waits_for_the_lock_ends(root, project, alice):
    cluster = scenes.build_cluster(root)
    job = submit(alice, project)
    node = cluster.node(1)
    attempt = start(job, node)
    sync(node, running(attempt))
    sync(node, ended(attempt, log_size=5), now=at(60))

    def send_the_last_byte():
        try:
            scenes.write_log(node, attempt, b"hello")
        finally:
            connections.close_all()

    sender = threading.Thread(target=send_the_last_byte)
    with transaction.atomic():
        cancel_job(actor=alice, job=job, now=at(61))
        sender.start()
        wait_until_somebody_waits()
    sender.join()
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED
    assert scenes.states(job)[-2:] == ["stopping", "succeeded"]
