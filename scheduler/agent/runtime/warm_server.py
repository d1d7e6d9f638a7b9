"""A warm, single-threaded process that turns a spool folder into a supervisor by one fork.

Looks at checkpoints are forked here too: a child can become the job's user, a thread of the agent
cannot. Nothing here may import `threading` or what imports it (`subprocess`, `concurrent`): what
that module does after each fork copies 150 pages of the child, a tenth of what an attempt costs.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
from pathlib import Path

from scheduler.agent.runtime import checkpoints, kernel, limits, processes, records
from scheduler.agent.runtime.checkpoints import CheckRequest, Finding
from scheduler.agent.runtime.children import drop_to
from scheduler.agent.runtime.records import LaunchRecord, StopRecord
from scheduler.agent.runtime.redaction import Redactor
from scheduler.agent.runtime.supervisor import Supervisor
from scheduler.states import EndReason
from scheduler.wire.codec import decode, encode, prepare

MAX_MESSAGE = 32 * 1024
LOOK_AT_MOST_S = 3600
_OOM_SCORE_ADJUST = -500
_LOOK_NICE = 10


def serve(channel_fd: int) -> None:
    """Fork a supervisor, or a look at a checkpoint, for every message until the agent is gone."""
    channel = socket.socket(fileno=channel_fd)
    # Supervisors are nobody's business here: the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Made by a child, each would take longer than all else that it computes.
    for kind in (*records.SUPERVISORS_RECORDS, CheckRequest, Finding):
        prepare(kind)
    _rehearse()
    # What is here stays for good: looking for garbage in it would only copy pages in children.
    gc.collect()
    gc.freeze()
    while True:
        message, files, _, _ = socket.recv_fds(channel, MAX_MESSAGE, 1)
        if not message:
            return
        if os.fork() == 0:
            channel.close()
            if message.startswith(b"{"):
                _look(message, files)
            _supervise(Path(os.fsdecode(message)), files)
        for held in files:
            os.close(held)


def _rehearse() -> None:
    """Do once what every supervisor does first and what can be kept: what is asked of the system
    for good, compiled patterns, a record there and back. A child copies each page it changes.
    """
    processes.boot_id()
    processes.start_ticks(os.getpid())
    limits.host_trees()
    Redactor(())
    decode(StopRecord, encode(StopRecord(EndReason.COMPLETED, 0)))
    select.poll().poll(0)


def _look(message: bytes, files: list[int]) -> None:
    """Answer a CheckRequest and end; a file that cannot be read ends it by the alarm."""
    try:
        signal.alarm(LOOK_AT_MOST_S)
        os.nice(_LOOK_NICE)
        request = decode(CheckRequest, message)
        drop_to(request.uid)
        os.write(files[0], encode(checkpoints.look(request)))
    finally:
        os._exit(0)


def _supervise(spool: Path, files: list[int]) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Nobody's stream is kept open by who outlives them; the first leads nowhere already.
        os.dup2(1, 2)
        kernel.set_oom_score(_OOM_SCORE_ADJUST)
        launch = records.read_record(LaunchRecord, spool / records.LAUNCH)
        if launch is None:
            raise OSError(f"no launch record in {spool}")
        holder = socket.socket(fileno=files[0]) if files else None
        Supervisor(spool, launch, holder).supervise()
        code = 0
    except BaseException:
        _leave_trace(spool)
    finally:
        os._exit(code)


def _leave_trace(spool: Path) -> None:
    """Say in the spool what went wrong; most supervisors have nothing to say, and make no file."""
    import traceback  # seldom needed, and it brings the tokenizer along

    with open(spool / records.ERRORS, "a", encoding="utf-8", errors="replace") as trace:
        traceback.print_exc(file=trace)
