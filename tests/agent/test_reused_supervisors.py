"""A supervisor that has done with an attempt guards the next one, and nothing of the first."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scheduler.agent.runtime import processes, records
from scheduler.agent.runtime.forking.forkserver import Forkserver
from scheduler.agent.runtime.records import (
    ExitRecord,
    LaunchRecord,
    SandboxPlan,
    SupervisorRecord,
)
from scheduler.states import EndReason
from tests.agent.conftest import wait_until
from tests.agent.test_sandbox import needs_sandbox

Launch = Callable[..., Path]


@pytest.fixture
def server() -> Iterator[Forkserver]:
    made = Forkserver()
    yield made
    made.close()


@pytest.fixture
def launch(server: Forkserver, tmp_path: Path) -> Launch:
    """Starts a shell script as an attempt of its own; the folder of its records."""

    def start(script: str, port_holder: socket.socket | None = None, **odd: Any) -> Path:
        fence = len(list(tmp_path.glob("slot-*"))) + 1
        slot = tmp_path / f"slot-{fence}"
        slot.mkdir()
        record: dict[str, Any] = {
            "fence": fence,
            "rank": 0,
            "command": ("/bin/sh", "-c", script),
            "env": {"PATH": "/usr/bin:/bin"},
            "processes": ({"RANK": "0"},),
            "working_dir": str(tmp_path),
            "notice_dir": str(tmp_path),
            "marker": f"TRAINYARD_TEST={tmp_path}-{fence}",
            "uid": None,
            "cpus": 1,
            "memory_mib": 256,
            "time_limit_s": 60,
            "stop_signal": "SIGTERM",
            "stop_grace_s": 5,
            "disconnect_grace_s": 3600.0,
            "last_sync_path": str(tmp_path / "sync"),
            "hint_address": f"nobody-{os.getpid()}",
            "log_cap_mib": 4,
        }
        records.write_record(slot / records.LAUNCH, LaunchRecord(**{**record, **odd}))
        server.launch(slot, port_holder)
        return slot

    return start


def _end(slot: Path) -> ExitRecord:
    wait_until((slot / records.EXIT).exists)
    end = records.read_record(ExitRecord, slot / records.EXIT)
    assert end is not None
    return end


def _guard(slot: Path) -> SupervisorRecord:
    wait_until((slot / records.SUPERVISOR).exists)
    guard = records.read_record(SupervisorRecord, slot / records.SUPERVISOR)
    assert guard is not None
    return guard


def _is_free(pid: int) -> bool:
    """Whether it waits for another attempt: only then it answers SIGTERM as any program does."""
    caught = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "SigCgt" in line
    )
    return not int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1)


def _rest(slot: Path) -> int:
    """The pid of the slot's supervisor, once it is free."""
    _end(slot)
    pid = _guard(slot).pid
    wait_until(lambda: _is_free(pid))
    time.sleep(0.05)  # the server hears of it
    return pid


def test_one_process_guards_one_attempt_after_the_other(launch: Launch) -> None:
    first, pids, open_files = None, set(), set()
    for number in range(6):
        slot = launch(f"echo line {number}; exit {number}")
        pid = _rest(slot)
        end, guard = _end(slot), _guard(slot)
        assert end.exit_code == number
        assert end.end_reason == (EndReason.EXIT_CODE if number else EndReason.COMPLETED)
        assert (slot / records.LOG).read_bytes() == b"line %d\n" % number
        assert guard.fence == number + 1
        pids.add(pid)
        open_files.add(psutil.Process(pid).num_fds())
        first = first or guard
    assert first is not None and pids == {first.pid}
    assert len(open_files) == 1, "it keeps files of attempts that have ended"
    assert processes.is_alive(first.pid, first.start_ticks)


@needs_sandbox
def test_no_file_of_a_sandbox_is_kept(launch: Launch, tmp_path: Path) -> None:
    plan = SandboxPlan(shutil.which("bwrap") or "", (str(tmp_path),), str(tmp_path))
    pids, open_files = set(), set()
    for _ in range(3):
        slot = launch("true", sandbox=plan, processes=({"RANK": "0"}, {"RANK": "1"}))
        pids.add(pid := _rest(slot))
        assert _end(slot).end_reason == EndReason.COMPLETED
        open_files.add(psutil.Process(pid).num_fds())
    assert len(pids) == len(open_files) == 1


def test_attempts_at_the_same_time_have_a_process_each(launch: Launch) -> None:
    slots = [launch("sleep 0.4") for _ in range(3)]
    assert len({_guard(slot).pid for slot in slots}) == 3
    assert {_end(slot).end_reason for slot in slots} == {EndReason.COMPLETED}


def test_what_one_attempt_was_asked_does_not_reach_the_next(launch: Launch) -> None:
    stopped = launch("sleep 60")
    pid = _guard(stopped).pid
    order = records.StopRecord(EndReason.CANCELLED_BY_USER, 5)
    records.write_record(stopped / records.STOP, order)
    os.kill(pid, signal.SIGUSR1)
    assert _end(stopped).end_reason == EndReason.CANCELLED_BY_USER
    assert _rest(stopped) == pid
    os.kill(pid, signal.SIGUSR1)  # late, by an agent that has not seen the end
    following = launch("sleep 0.2; grep SigIgn /proc/self/status")
    assert _end(following).end_reason == EndReason.COMPLETED
    assert _guard(following).pid == pid
    _, ignored = (following / records.LOG).read_text().split()
    # Others may be ignored by whoever started the tests.
    ours = (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP)
    assert not [one for one in ours if int(ignored, 16) & 1 << (one - 1)]


def test_a_program_left_running_is_gone_before_the_next_begins(launch: Launch) -> None:
    slot = launch("setsid sleep 61 & echo $!")
    pid = _rest(slot)
    left = int((slot / records.LOG).read_text())
    assert not psutil.pid_exists(left)
    assert psutil.Process(pid).children() == []


def test_one_that_was_killed_while_free_is_not_waited_for(launch: Launch) -> None:
    pid = _rest(launch("true"))
    os.kill(pid, signal.SIGKILL)
    slot = launch("true")
    assert _end(slot).end_reason == EndReason.COMPLETED
    assert _guard(slot).pid != pid


def test_the_free_end_with_the_server_and_the_busy_do_not(
    server: Forkserver, launch: Launch
) -> None:
    pid = _rest(launch("true"))
    busy = launch("sleep 1; echo done")
    assert _guard(busy).pid == pid
    server.close()
    assert _end(busy).end_reason == EndReason.COMPLETED
    wait_until(lambda: not psutil.pid_exists(pid))


def _may(words: str) -> bool:
    """Whether the kernel lets somebody who is started from here do this."""
    done = subprocess.run([sys.executable, "-c", f"import os; {words}"], capture_output=True)
    return done.returncode == 0


def test_a_guard_goes_before_programs_and_is_spared_where_memory_is_short(launch: Launch) -> None:
    """Where that is allowed; a guard that is used again, too, and never its programs."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    spared = _may("os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-500')")
    first = own - 10 if _may(f"os.setpriority(os.PRIO_PROCESS, 0, {own - 10})") else own
    pids = set()
    for _ in range(2):
        slot = launch("cat /proc/self/oom_score_adj; nice")
        pid = _rest(slot)
        assert (slot / records.LOG).read_text().split() == ["500", str(own)]
        assert os.getpriority(os.PRIO_PROCESS, pid) == first
        score = int(Path(f"/proc/{pid}/oom_score_adj").read_text())
        assert (score == -500) is spared
        pids.add(pid)
    assert len(pids) == 1


def test_a_free_one_ends_when_the_host_asks(launch: Launch) -> None:
    pid = _rest(launch("true"))
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not psutil.pid_exists(pid))


def test_the_port_of_a_rank_is_held_by_a_used_one_too(launch: Launch) -> None:
    pid = _rest(launch("true"))
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        slot = launch("sleep 0.3", holder)
    assert _end(slot).end_reason == EndReason.COMPLETED
    assert _guard(slot).pid == pid
    with socket.create_server(("127.0.0.1", port)):
        pass  # nobody keeps it


def test_the_server_has_loaded_no_more_than_supervisors_need() -> None:
    """Each fork would pay for it: `threading` makes its locks anew in every child, the others bring
    libraries, fifty areas of memory to copy and to give up."""
    name = "scheduler.agent.runtime.forking.warm_server"
    dear = "threading subprocess hashlib shutil decimal zoneinfo bz2 lzma zlib ssl logging random"
    look = f"import sys, {name}; print(*{set(dear.split())} & sys.modules.keys())"
    root = str(Path(__file__).resolve().parents[2])
    python = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {root!r}); {look}"]
    told = subprocess.run(python, capture_output=True, text=True, check=True)
    assert told.stdout == "\n"
