"""The loop in real Celery workers, with a real broker that comes, goes and is killed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from scheduler.loop.lease import LEASE_S
from tests.loop.workers import Stage, copy_database, terminate, until

# Its database is a file of its own.
pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    """A folder with an empty database, copied by each test."""
    stage = Stage(tmp_path_factory.mktemp("template"), tmp_path_factory.mktemp("run"))
    stage.migrate()
    stage.submit(0)
    return stage


@pytest.fixture
def stage(migrated, tmp_path):
    # Paths of Unix sockets are short; a test's own folder is not.
    run_folder = Path(tempfile.mkdtemp(prefix="ty-"))
    made = Stage(tmp_path, run_folder)
    copy_database(migrated, made)
    yield made
    made.stop()
    shutil.rmtree(run_folder, ignore_errors=True)


def test_of_two_workers_the_lease_holder_schedules(stage):
    stage.start_broker()
    first = stage.start_worker("first")
    until(lambda: stage.holder() == str(first.pid))
    second = stage.start_worker("second")
    until(lambda: stage.listeners() == 2)

    (job,) = stage.submit()
    until(lambda: stage.states()[job] == "starting")

    # A clean stop hands over at once: no need to wait until the lease runs out.
    assert terminate(first) == 0
    took_s = until(lambda: stage.holder() == str(second.pid))
    assert took_s < LEASE_S
    (job,) = stage.submit()
    until(lambda: stage.states()[job] == "starting")
    # That a killed holder is replaced in time: tests/outages/test_outages.py.


def test_without_a_broker_the_loop_goes_on(stage):
    # The broker is down from the start.
    worker = stage.start_worker("only")
    (job,) = stage.submit()
    until(lambda: stage.states()[job] == "starting")
    assert stage.holder() == str(worker.pid)

    # It comes, and the worker listens.
    stage.start_broker()
    until(lambda: stage.listeners() == 1)
    (job,) = stage.submit()
    until(lambda: stage.states()[job] == "starting")

    # It is killed while jobs wait: they are scheduled all the same.
    stage.kill_broker()
    for job in stage.submit(3):
        until(lambda job=job: stage.states()[job] == "starting")
    assert worker.poll() is None

    # It comes back.
    stage.start_broker()
    until(lambda: stage.listeners() == 1)

    # Stopping works without it, too, and leaves the lease free.
    stage.kill_broker()
    assert terminate(worker) == 0
    assert stage.holder() == ""


def test_a_prefork_worker_refuses_the_queue(stage):
    stage.start_broker()
    worker = stage.start_worker("only", pool="prefork")
    assert worker.wait(30) != 0
    assert "needs a worker with -P threads" in stage.log("only").read_text()
