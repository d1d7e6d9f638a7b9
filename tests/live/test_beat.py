"""Regular tasks while the machine's clock is put back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery import Celery

from portal.celery import SteadyScheduler
from portal.celery import app as ours


@pytest.fixture
def beat(tmp_path, monkeypatch):
    """A clock of two tasks, and what it has handed out."""
    app = Celery("tests", broker="memory://")
    app.conf.beat_schedule = {
        name: {"task": name, "schedule": every} for name, every in (("often", 5), ("daily", 86400))
    }
    handed: list[str] = []
    monkeypatch.setattr(
        SteadyScheduler, "apply_entry", lambda self, entry, **_: handed.append(entry.name)
    )
    scheduler = SteadyScheduler(app=app, schedule_filename=str(tmp_path / "beat"), lazy=True)
    scheduler.setup_schedule()
    yield scheduler, handed
    scheduler.close()


def test_ours_is_the_one_that_beat_takes():
    assert ours.conf.beat_scheduler == f"{SteadyScheduler.__module__}:{SteadyScheduler.__name__}"


def test_a_run_noted_in_a_time_to_come_counts_from_now(beat):
    scheduler, handed = beat
    now = scheduler.app.now()
    for entry in scheduler.schedule.values():
        entry.last_run_at = now + timedelta(hours=2)
    assert 3 < scheduler.tick() <= 5 and not handed
    assert all(entry.last_run_at <= scheduler.app.now() for entry in scheduler.schedule.values())


def test_what_it_holds_ready_is_laid_anew(beat):
    """Put back while it runs: what it has noted moves away from it."""
    scheduler, handed = beat
    scheduler.schedule["often"].last_run_at -= timedelta(hours=1)
    scheduler.tick()
    assert handed == ["often"]
    scheduler._heap = [event._replace(time=event.time + 7200) for event in scheduler._heap]
    for entry in scheduler.schedule.values():
        entry.last_run_at += timedelta(hours=2)
    assert 3 < scheduler.tick() <= 5
