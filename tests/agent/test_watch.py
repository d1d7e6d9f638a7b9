"""Following a program's checkpoints: never in anybody's way, and never without an end."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent import watch as module
from scheduler.agent.runtime.checkpoints import CheckRequest, Finding, look
from scheduler.agent.runtime.records import LaunchRecord
from scheduler.agent.spool import Slot, Spool
from scheduler.agent.watch import CheckpointWatch
from tests.agent.conftest import assignment, wait_until
from tests.agent.test_checkpoint_notes import leave


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    (tmp_path / "saved").mkdir()
    slot = Spool(tmp_path / "spool").open(assignment("true"))
    env = {"TRAINYARD_CHECKPOINT_DIR": str(tmp_path / "saved")}
    blank: dict[str, Any] = {
        "working_dir": "/",
        "notice_dir": "/",
        "marker": "",
        "stop_signal": "SIGTERM",
        "last_sync_path": "",
        "hint_address": "",
    }
    numbers = dict.fromkeys(
        ("cpus", "memory_mib", "time_limit_s", "stop_grace_s", "disconnect_grace_s", "log_cap_mib"),
        1,
    )
    fence = slot.entry.assignment.fence
    slot.write_launch(LaunchRecord(fence, 0, ("true",), env, ({},), uid=None, **blank, **numbers))
    return slot


def plainly(request: CheckRequest, is_unwanted: Any) -> Finding | None:
    return look(request)


def test_a_slow_file_holds_nobody_up_and_is_told_when_it_is_read(
    slot: Slot, tmp_path: Path
) -> None:
    go_on, told = threading.Event(), threading.Event()

    def slowly(request: CheckRequest, is_unwanted: Any) -> Finding | None:
        go_on.wait(10)
        return look(request)

    leave(tmp_path / "saved")
    watch = CheckpointWatch(slot, slowly, told.set)
    watch.look()
    watch.finish(0.05)
    assert not watch.is_done and watch.confirmed is None
    go_on.set()
    wait_until(lambda: watch.is_done)
    assert watch.confirmed is not None and watch.confirmed.step == 12
    wait_until(told.is_set)


def test_without_a_new_note_it_is_done_at_once(slot: Slot, tmp_path: Path) -> None:
    watch = CheckpointWatch(slot, plainly, lambda: None)
    watch.look()
    watch.finish(5)
    assert watch.is_done and watch.problem == ""


def test_a_note_from_before_the_start_is_not_the_programs(slot: Slot, tmp_path: Path) -> None:
    leave(tmp_path / "saved")
    seen = look(CheckRequest(str(tmp_path / "saved"))).mark
    launch = slot.launch()
    assert launch is not None
    slot.write_launch(replace(launch, checkpoint_seen=seen))
    watch = CheckpointWatch(slot, plainly, lambda: None)
    watch.look()
    watch.finish(5)
    assert watch.is_done and watch.confirmed is None


@pytest.mark.parametrize("fault", [None, OSError("no forks left")])
def test_a_look_that_fails_is_a_problem_and_ends_all_the_same(
    slot: Slot, tmp_path: Path, fault: OSError | None
) -> None:
    def badly(request: CheckRequest, is_unwanted: Any) -> Finding | None:
        if fault is not None:
            raise fault
        return None

    leave(tmp_path / "saved")
    watch = CheckpointWatch(slot, badly, lambda: None)
    watch.look()
    watch.finish(5)
    assert watch.is_done and "could not be read" in watch.problem


def test_a_folder_that_the_agent_may_not_see_is_asked_now_and_then(
    slot: Slot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root on a network file system that takes root for nobody."""
    marks = iter(["?1", "?1", "?2", "?2", "?2"])
    monkeypatch.setattr(module, "_mark", lambda folder: next(marks, "?2"))
    monkeypatch.setattr(module, "_POLL_S", 0.01)
    asked: list[str] = []

    def counting(request: CheckRequest, is_unwanted: Any) -> Finding | None:
        asked.append(request.seen)
        return look(request)

    leave(tmp_path / "saved")
    watch = CheckpointWatch(slot, counting, lambda: None)
    watch.look()
    wait_until(lambda: len(asked) == 2)
    watch.finish(5)
    assert watch.confirmed is not None
    assert len(asked) == 2 and asked[0] == "" and asked[1] != "", "unchanged, it is not read again"
