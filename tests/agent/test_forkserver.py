"""What a supervisor costs before it does anything, and its records."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from scheduler.agent.runtime import records
from scheduler.agent.runtime.forking.forkserver import Forkserver

COUNT = 100


def _computed_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def test_a_supervisor_is_a_fork_of_a_small_warm_process(tmp_path: Path) -> None:
    """About a millisecond of computing for its parent, where an interpreter's start takes 20."""
    server = Forkserver()
    try:
        # A folder without a record: the child ends at once, and what the fork costs is left.
        server.launch(tmp_path, None)
        assert server._server is not None
        process = psutil.Process(server._server.pid)
        _settle(process, tmp_path / records.ERRORS)
        before = _computed_s(process)
        for _ in range(COUNT):
            server.launch(tmp_path, None)
        _settle(process)
        each_ms = (_computed_s(process) - before) / COUNT * 1000
        size_mib = process.memory_info().rss / 2**20
    finally:
        server.close()
    print(f"{each_ms:.2f} ms a fork of {size_mib:.0f} MiB")
    assert each_ms < 4
    assert size_mib < 40


def _settle(process: psutil.Process, trace: Path | None = None) -> None:
    """Until it waits for the next message, and its first child has left a trace."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        is_waiting = process.status() == psutil.STATUS_SLEEPING
        if is_waiting and (trace is None or (trace.exists() and trace.stat().st_size)):
            return
        time.sleep(0.02)
    raise AssertionError("it does not come to rest")


def test_a_record_of_many_pieces_comes_back_whole(tmp_path: Path) -> None:
    plan = records.SandboxPlan("p" * 300_000, own=("a",), temporary="t")
    records.write_record(tmp_path / records.LAUNCH, plan, durable=True)
    assert records.read_record(records.SandboxPlan, tmp_path / records.LAUNCH) == plan
    assert [path.name for path in tmp_path.iterdir()] == [records.LAUNCH]
