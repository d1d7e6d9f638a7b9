"""Follow what a program says of its checkpoints, and hold it against the files.

A thread of its own for each attempt that has a folder of the user's, which may hang, or a new note:
a large checkpoint takes minutes to read. The agent's pulse only ever reads what was found last.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from scheduler.agent.runtime.checkpoints import NOTE_FILE, CheckRequest, Finding, mark_of
from scheduler.agent.runtime.records import LaunchRecord
from scheduler.agent.spool import Slot
from scheduler.wire.messages import Checkpoint

_POLL_S = 1.0
# Reading takes at most a fifth of the time, however often a program takes checkpoints.
_REST = 4.0
# A folder that only the job's user may enter cannot be watched, so it is asked now and then.
_BLIND_POLL_S = 15.0
_MAX_PROBLEM = 255

Look = Callable[[CheckRequest, Callable[[], bool]], Finding | None]

logger = logging.getLogger(__name__)


class CheckpointWatch:
    """The checkpoints of one attempt. `on_change` is called when `confirmed` or `problem` changed.

    `is_done`: the attempt has ended and its last note was looked at.
    """

    def __init__(self, slot: Slot, look: Look, on_change: Callable[[], None]) -> None:
        self.slot = slot
        self.confirmed: Checkpoint | None = None
        self.problem = ""
        self.is_done = False
        self._look = look
        self._on_change = on_change
        self._launch: LaunchRecord | None = None
        self._seen: str | None = None
        self._marked = ""
        self._has_ended = False
        self._stopped = False
        self._nudge = threading.Event()
        self._quiet = threading.Event()
        self._begun = False
        self._lock = threading.Lock()

    def look(self) -> bool:
        """Begin to follow if there is a reason to; whether to look again."""
        with self._lock:
            is_wanted = not (self._begun or self._stopped or self.is_done)
            if is_wanted and self._has_reason():
                name = f"checkpoint-{self.slot.entry.assignment.fence}"
                threading.Thread(target=self._follow, name=name, daemon=True).start()
                self._begun = True
            return is_wanted and not self._begun

    def _has_reason(self) -> bool:
        """A new note in a folder of this node's own; one of the user's is only touched apart."""
        if self.slot.entry.assignment.launch.checkpoint_dir:
            return True
        launch = self.slot.launch()
        if launch is None:
            return False
        return _mark(launch.env["TRAINYARD_CHECKPOINT_DIR"]) not in ("", launch.checkpoint_seen)

    def stop(self) -> None:
        """Nobody wants to know any more."""
        self._stopped = True
        self._nudge.set()

    def finish(self, wait_s: float) -> None:
        """The attempt has ended: look once more. Waits shortly, so that most are done at once."""
        self._has_ended = True
        self.look()
        if not self._begun:
            self.is_done = True
            return
        self._nudge.set()
        self._quiet.wait(wait_s)

    def _follow(self) -> None:
        while not self._stopped:
            # The end is read before the note: once it is there, the note is final.
            ended = self._has_ended or self.slot.exit() is not None
            rest_s = self._look_once()
            if ended and rest_s == 0.0:
                break
            if not ended:
                self._nudge.wait(rest_s or _POLL_S)
                self._nudge.clear()
        self.is_done = True
        self._quiet.set()
        if self._has_ended and not self._stopped:
            self._on_change()

    def _look_once(self) -> float:
        """Look at a new note; returns how long to rest then, 0 when there was nothing new."""
        self._launch = self._launch or self.slot.launch()
        if self._launch is None:
            return 0.0
        if self._seen is None:
            self._seen = self._marked = self._launch.checkpoint_seen
        folder = self._launch.env["TRAINYARD_CHECKPOINT_DIR"]
        mark = _mark(folder)
        if mark in ("", self._marked):
            return 0.0
        began = time.monotonic()
        finding = self._ask(CheckRequest(folder, self._launch.uid, self._seen))
        if finding is None:
            finding = Finding(problem=f"{NOTE_FILE}: the checkpoint could not be read")
        self._marked = finding.mark if finding.mark and not mark.startswith("?") else mark
        self._take(finding)
        return max(_POLL_S, _REST * (time.monotonic() - began))

    def _ask(self, request: CheckRequest) -> Finding | None:
        try:
            return self._look(request, lambda: self._stopped)
        except OSError as problem:
            logger.warning("cannot look at %s: %s", request.folder, problem)
            return None

    def _take(self, finding: Finding) -> None:
        if self._stopped or (finding.mark and finding.mark == self._seen):
            return
        self._seen = finding.mark
        before = (self.confirmed, self.problem)
        self.confirmed = finding.confirmed or self.confirmed
        self.problem = finding.problem[:_MAX_PROBLEM]
        if (self.confirmed, self.problem) != before:
            self._on_change()


def _mark(folder: str) -> str:
    """The mark of the note that lies there now, empty for none."""
    try:
        return mark_of(os.stat(os.path.join(folder, NOTE_FILE), follow_symlinks=False))
    except PermissionError:
        return f"?{time.monotonic() // _BLIND_POLL_S:.0f}"
    except OSError:
        return ""
