"""The last that a supervisor does: the rest of the log and the exit record, on disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from scheduler.agent.runtime import records
from scheduler.agent.runtime.capture import LogCapture
from scheduler.agent.runtime.records import ExitRecord

_AGAIN_S = 1.0
# For so long a full disk may keep an attempt's devices for the sake of its log.
_PATIENCE_S = 600.0


def record_end(
    spool: Path,
    log: LogCapture,
    end: ExitRecord,
    is_hurried: Callable[[], bool],
    patience_s: float = _PATIENCE_S,
) -> None:
    """Write both durably; returns once the record is there.

    A full disk: without the record the end would be unknown, so room is waited for. For the log it
    is waited some minutes, or until one `is_hurried`; then the end tells what is missing of it and
    counts that as well: the server waits for bytes that do not come and shows the gap.
    """
    give_up_at = time.monotonic() + patience_s
    final = None
    while True:
        try:
            final = final or _final(log, end, time.monotonic() >= give_up_at or is_hurried())
            records.write_record(spool / records.EXIT, final, durable=True)
            return
        except OSError:
            time.sleep(_AGAIN_S)


def _final(log: LogCapture, end: ExitRecord, gives_up: bool) -> ExitRecord:
    """The record, with the size of the settled log. Raises OSError while it cannot be settled."""
    try:
        log.settle()
    except OSError as problem:
        if not gives_up:
            raise
        reason = problem.strerror or str(problem)
        told = f"The last {len(log.owed)} bytes of its log could not be written: {reason}."
        end = replace(end, detail=f"{end.detail} {told}".lstrip())
    return replace(end, log_size=log.size + len(log.owed))
