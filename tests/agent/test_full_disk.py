"""A disk without room loses nothing that it can still take later, and says what it lost."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.runtime import records
from scheduler.agent.runtime.capture import CUT, LEFT_OUT, LogCapture
from scheduler.agent.runtime.ending import record_end
from scheduler.agent.runtime.records import ExitRecord
from scheduler.states import AttemptState, EndReason
from tests.agent.conftest import assignment, wait_until
from tests.agent.portal import Portal
from tests.agent.test_restart import own, slot_of

__all__ = ("own",)
KIB = 1024
WORDS = b"".join(b"line %d\n" % number for number in range(100_000))
DONE = ExitRecord(EndReason.COMPLETED, 2.0, 1.0, 0)


@contextmanager
def room_for(size: int) -> Iterator[Any]:
    """No file of this process may grow beyond; gives what lifts that again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def print_all(log: LogCapture, words: bytes) -> None:
    for at in range(0, len(words), 32 * KIB):
        os.write(log.write_end, words[at : at + 32 * KIB])
        assert log.take()


def test_what_a_full_disk_refused_is_written_once_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogCapture(path, 64) as log:
        with room_for(256 * KIB):
            print_all(log, WORDS)
            with pytest.raises(OSError, match="too large"):
                log.settle()
            assert log.size == path.stat().st_size == 256 * KIB
        log.settle()
        log.settle()  # once more is no harm
    text = path.read_bytes()
    assert log.size == len(text) and not log.owed
    head, _, rest = text.partition(f"\n{CUT}".encode())
    assert head + rest.partition(b"\n")[2] == WORDS


def test_what_did_not_fit_into_memory_meanwhile_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogCapture(path, 1) as log:  # of which half a MiB may be held back
        with room_for(64 * KIB):
            print_all(log, WORDS)
        log.settle()
    head, _, rest = path.read_bytes().partition(f"\n{CUT}".encode())
    note, _, tail = rest.partition(f"{LEFT_OUT}\n".encode())
    left_out = int(note.rpartition(b" ")[2])
    assert WORDS.startswith(head) and WORDS.endswith(tail) and left_out > 0
    assert len(head) + left_out + len(tail) == len(WORDS)


def test_the_end_waits_for_room_for_the_log(tmp_path: Path) -> None:
    with LogCapture(tmp_path / "log", 64) as log, room_for(64 * KIB) as lift:
        print_all(log, WORDS)
        patience = threading.Timer(0.5, lift)
        patience.start()
        record_end(tmp_path, log, DONE, lambda: False)
    end = records.read_record(ExitRecord, tmp_path / records.EXIT)
    assert end and end.detail == "" and end.log_size == (tmp_path / "log").stat().st_size
    assert end.log_size > len(WORDS)


@pytest.mark.parametrize(("is_hurried", "patience_s"), [(True, 600.0), (False, 0.0)])
def test_who_cannot_wait_says_what_is_lost_and_counts_it(
    tmp_path: Path, is_hurried: bool, patience_s: float
) -> None:
    with LogCapture(tmp_path / "log", 64) as log, room_for(64 * KIB):
        print_all(log, WORDS)
        began = time.monotonic()
        record_end(tmp_path, log, DONE, lambda: is_hurried, patience_s)
        assert time.monotonic() - began < 30
    end = records.read_record(ExitRecord, tmp_path / records.EXIT)
    missing = len(log.owed)
    assert end and end.log_size == 64 * KIB + missing and missing > len(WORDS) - 64 * KIB
    assert end.detail == (
        f"The last {missing} bytes of its log could not be written: File too large."
    )


def test_a_jobs_log_is_whole_though_the_disk_was_full_at_its_end(portal: Portal, own: Any) -> None:
    own.start()
    script = "echo one; while [ ! -e go ]; do sleep 0.05; done; seq -w 1 40000; exit 3"
    order = assignment(script)
    portal.assign(own.name, order)
    portal.wait(lambda: portal.logs[order.fence, 0], what="the first words")
    slot = slot_of(own, order)
    supervisor = wait_until(slot.supervisor)
    unlimited = resource.prlimit(supervisor.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(supervisor.pid, resource.RLIMIT_FSIZE, (64 * KIB, unlimited[1]))
    (Path(wait_until(slot.launch).working_dir) / "go").touch()
    wait_until(lambda: slot.log_size() == 64 * KIB)
    time.sleep(1.5)  # the program is over; its end may not be told yet
    assert slot.exit() is None
    resource.prlimit(supervisor.pid, resource.RLIMIT_FSIZE, unlimited)
    report = portal.wait_for(own.name, order.fence, AttemptState.ENDED)
    portal.wait(lambda: len(portal.logs[order.fence, 0]) >= report.log_size, what="its log")
    assert (report.exit_code, report.detail) == (3, "")
    head, _, rest = portal.logs[order.fence, 0].decode().partition(f"\n{CUT}")
    whole = "one\n" + "".join(f"{number:05}\n" for number in range(1, 40_001))
    assert head + rest.partition("\n")[2] == whole
