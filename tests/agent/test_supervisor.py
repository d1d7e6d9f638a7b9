"""What a supervisor makes of what it sees in one look."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.agent.runtime import limits, processes, records
from scheduler.agent.runtime.records import StopRecord
from scheduler.agent.runtime.supervisor import Supervisor
from scheduler.states import EndReason
from tests.agent.conftest import assignment
from tests.agent.test_spool import launch_of

# No process has it.
NOBODY = 2**22 + 1


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """Of two local processes, whose ends the test tells."""
    launch = replace(launch_of(assignment()), memory_mib=64, time_limit_s=60)
    made = Supervisor(tmp_path, replace(launch, disconnect_grace_s=60.0, notice_dir=str(tmp_path)))
    monkeypatch.setattr(made, "_reap", lambda: None)
    # A supervisor ends all below its own process: here that would be whatever other tests run.
    for name in ("descendants", "descendants_near"):
        monkeypatch.setattr(processes, name, lambda _: [])
    made.mains = {NOBODY: 0, NOBODY + 1: None}
    yield made
    os.close(made.wakeups.read_end)
    os.close(made.wakeups._write_end)


@pytest.mark.parametrize("grace_s", [5, 0])
def test_only_who_still_lives_is_sent_a_signal(
    guard: Supervisor, monkeypatch: pytest.MonkeyPatch, grace_s: int
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: sent.append(pid))
    guard._begin_stop(StopRecord(EndReason.CANCELLED_BY_USER, grace_s))
    guard._press()
    assert sent == [NOBODY + 1]


@pytest.mark.parametrize(("code", "reason"), [(0, EndReason.COMPLETED), (1, EndReason.PREEMPTED)])
def test_an_order_seen_too_late_does_not_undo_what_was_done(
    guard: Supervisor, code: int, reason: EndReason
) -> None:
    order = StopRecord(EndReason.PREEMPTED, 5)
    records.write_record(guard.spool / records.STOP, order)
    guard.mains[NOBODY + 1] = code
    guard._look()
    assert guard._judge().end_reason == reason


def test_who_ends_well_as_the_host_goes_down_goes_on_elsewhere(guard: Supervisor) -> None:
    guard.mains[NOBODY + 1] = 0
    guard.wakeups.host_stops = True
    guard._look()
    assert guard._judge().end_reason == EndReason.NODE_LOST


def test_the_word_of_the_start_waits_for_room_on_the_disk(
    guard: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    guard.began -= 1
    with monkeypatch.context() as full:
        full.setattr(records, "write_record", refuse)
        guard._tell_of_start()
    assert not (guard.spool / records.STARTED).exists()
    guard._tell_of_start()
    assert guard.told_start and (guard.spool / records.STARTED).exists()


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ("oom 0\noom_kill 1\n", EndReason.NODE_LOST),
        ("oom 1\noom_kill 1\n", EndReason.OUT_OF_MEMORY),
        ("oom 0\noom_kill 0\n", EndReason.EXIT_CODE),
    ],
)
def test_whose_memory_ran_out_is_told(
    guard: Supervisor, tmp_path: Path, events: str, reason: EndReason
) -> None:
    (tmp_path / "memory.events").write_text(events)
    guard.limits = limits.Limits(64, memory_group=tmp_path)
    guard.mains[NOBODY + 1] = -9
    end = guard._judge()
    assert (end.end_reason, end.exit_code) == (reason, 137)
    assert ("the node ran out of memory" in end.detail) == (reason == EndReason.NODE_LOST)
