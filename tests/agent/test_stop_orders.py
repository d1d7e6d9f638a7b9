"""An order to stop is carried out though the disk takes nothing more."""

from __future__ import annotations

import errno
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.agent.runner import Attempt
from scheduler.agent.runtime import processes, records
from scheduler.agent.runtime.records import StopRecord, SupervisorRecord, write_record
from scheduler.agent.runtime.space.contact import since_boot
from scheduler.agent.spool import Slot, Spool
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import StopOrder
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal
from tests.agent.test_restart import own
from tests.agent.test_spool import launch_of

__all__ = ("own",)
ORDER = StopRecord(EndReason.CANCELLED_BY_USER, 60)


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    """Of an attempt that a process guards which knows nothing of orders."""
    spool = Spool(tmp_path / "spool")
    spool.accept([slot := spool.open(order := assignment())])
    slot.write_launch(launch_of(order))
    with subprocess.Popen(
        ["/bin/sh", "-c", "trap '' USR1; echo; read x"], stdin=-1, stdout=-1
    ) as guard:
        assert guard.stdout is not None
        guard.stdout.readline()
        ticks = processes.start_ticks(guard.pid) or 0
        me = SupervisorRecord(order.fence, processes.boot_id(), guard.pid, ticks)
        write_record(slot.path / records.SUPERVISOR, me)
        yield slot


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_it_has_room_from_the_start(slot: Slot) -> None:
    (room,) = slot.path.glob(".stop.json*")
    kept = room.stat().st_ino
    assert room.stat().st_size >= 512
    slot.write_stop(ORDER)
    assert (slot.path / records.STOP).stat().st_ino == kept and slot.stop() == ORDER


def test_one_that_cannot_be_written_is_kept_and_written_later(
    slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(slot)
    with monkeypatch.context() as full:
        full.setattr(Slot, "write_stop", no_room)
        attempt.order_stop(ORDER.reason, ORDER.grace_s)
        attempt.refresh(since_boot())
        assert attempt.report().state == AttemptState.STOPPING and slot.stop() is None
    attempt.refresh(since_boot())
    assert slot.stop() == ORDER


@pytest.mark.parametrize("script", ["trap '' TERM; ", ""])
def test_on_a_disk_that_takes_nothing_the_agent_ends_the_program(
    portal: Portal, own: Agent, script: str
) -> None:
    own.start()
    order = assignment(f"{script}echo one; while :; do sleep 0.05; done")
    portal.assign(own.name, order)
    portal.wait_for(own.name, order.fence, AttemptState.RUNNING)
    assert own.process is not None
    resource.prlimit(own.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    asked_at = time.monotonic()
    portal.stop_attempt(own.name, order.fence, StopOrder(EndReason.PREEMPTED, 1))
    report = portal.wait_for(own.name, order.fence, AttemptState.ENDED)
    assert 1 < time.monotonic() - asked_at < 10
    assert (report.end_reason, report.exit_code) == (EndReason.PREEMPTED, 137)


def test_what_was_done_before_it_had_to_be_ended_is_done(portal: Portal, own: Agent) -> None:
    own.start()
    order = assignment("while [ ! -e go ]; do sleep 0.05; done; exit 0")
    portal.assign(own.name, order)
    portal.wait_for(own.name, order.fence, AttemptState.RUNNING)
    assert own.process is not None
    resource.prlimit(own.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    portal.stop_attempt(own.name, order.fence, StopOrder(EndReason.PREEMPTED, 60))
    portal.wait_for(own.name, order.fence, AttemptState.STOPPING)
    (own.state / "attempts" / f"{order.fence}-0" / "work" / "go").touch()
    report = portal.wait_for(own.name, order.fence, AttemptState.ENDED)
    assert (report.end_reason, report.exit_code) == (EndReason.COMPLETED, 0)
    wait_until(lambda: own.process is not None and own.process.poll() is None)
