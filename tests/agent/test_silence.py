"""While the server is not reached no program outlives its grace, nor begins after it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scheduler.agent.runtime import processes, records
from scheduler.agent.runtime.forking import overdue
from scheduler.agent.runtime.forking.overdue import Deadlines
from scheduler.agent.runtime.records import ExitRecord, StopRecord
from scheduler.agent.runtime.space.contact import since_boot
from scheduler.states import EndReason
from tests.agent.conftest import assignment, wait_until
from tests.agent.test_reused_supervisors import Launch, _end, launch, server
from tests.agent.test_spool import launch_of

__all__ = ("launch", "server")
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def _reached(path: Path, ago_s: float) -> str:
    """As the agent notes when it reached the server last."""
    path.write_text(f"{processes.boot_id()} {time.monotonic() - ago_s:.3f}")
    return str(path)


def test_a_stop_under_way_is_over_when_a_silent_one_would_be(
    launch: Launch, tmp_path: Path
) -> None:
    sync = _reached(tmp_path / "contact", 0.0)
    slot = launch(STUBBORN, disconnect_grace_s=1.5, stop_grace_s=1, last_sync_path=sync)
    wait_until(lambda: (slot / records.LOG).exists() and (slot / records.LOG).read_bytes())
    began = time.monotonic()
    order = StopRecord(EndReason.CANCELLED_BY_USER, 300)
    records.write_record(slot / records.STOP, order)
    end = _end(slot)
    assert end.end_reason == EndReason.CANCELLED_BY_USER and end.exit_code == 137
    assert time.monotonic() - began < 6


def test_nothing_begins_where_the_server_was_not_reached_for_a_grace(
    launch: Launch, tmp_path: Path
) -> None:
    """Its code may have taken half an hour to fetch, and another copy run by now."""
    sync = _reached(tmp_path / "contact", 100.0)
    slot = launch("echo never", disconnect_grace_s=60.0, last_sync_path=sync)
    end = _end(slot)
    assert (end.end_reason, end.started_at) == (EndReason.NODE_LOST, None)
    assert "no contact" in end.detail and not (slot / records.LOG).exists()


def test_one_that_began_late_counts_from_when_the_server_was_reached(
    launch: Launch, tmp_path: Path
) -> None:
    sync = _reached(tmp_path / "contact", 58.0)
    slot = launch("sleep 300", disconnect_grace_s=60.0, last_sync_path=sync)
    began = time.monotonic()
    end: ExitRecord = _end(slot)
    assert end.end_reason == EndReason.NODE_LOST and time.monotonic() - began < 6


def test_the_agent_ends_what_was_ordered_to_stop_and_is_silent_for_too_long() -> None:
    """An agent that was started again counts the order from its own start."""
    deadlines = Deadlines(lambda: 60, ordered=True)
    launch = launch_of(assignment())  # a grace of a second, and one to stop in
    order = StopRecord(EndReason.CANCELLED_BY_USER, 300)
    due = deadlines.due(launch, order, since_boot() - 50)
    assert due.late_s > 45 and "no contact" in due.why
    assert deadlines.due(launch, order, since_boot()).late_s < 0


def test_the_agent_counts_the_time_in_which_the_machine_slept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deadlines = Deadlines(lambda: 60, ordered=False)
    launch, reached_at = launch_of(assignment()), since_boot()
    assert deadlines.due(launch, None, reached_at).late_s < 0
    monkeypatch.setattr(overdue, "since_boot", lambda: since_boot() + 50)
    due = deadlines.due(launch, None, reached_at)
    assert due.late_s > 45 and "no contact" in due.why
