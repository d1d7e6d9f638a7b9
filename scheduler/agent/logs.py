"""Ship an attempt's log by byte offset: in order, idempotent, until its end is durable."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress

from scheduler.agent.client import Backoff, Client, Refused, ServerAway
from scheduler.agent.spool import Slot
from scheduler.failpoints import reach
from scheduler.wire.messages import MAX_LOG_CHUNK

_POLL_S = 0.15
_UNAUTHORISED = (401, 403)
# While nobody takes it, what is written is made durable so often.
_FLUSH_S = 1.0

logger = logging.getLogger(__name__)


class LogShipper:
    """One stream's way to the server, on a thread of its own once there is anything to send."""

    def __init__(self, slot: Slot, client: Client, retry_cap_s: float) -> None:
        self.slot = slot
        self.client = client
        self.fence = slot.entry.assignment.fence
        self.rank = slot.entry.assignment.rank
        self.offset = slot.shipped()
        self._backoff = Backoff(retry_cap_s)
        # How much of the file survives a power cut, as far as this has seen to it.
        self._durable = 0
        self._nudge = threading.Event()
        self._stopped = False
        self._begun = False
        self._lock = threading.Lock()

    def look(self) -> bool:
        """Begin if there is anything to send; whether to look again."""
        with self._lock:
            if not self._begun and not self._stopped and self.slot.log_size() > self.offset:
                name = f"log-{self.fence}-{self.rank}"
                threading.Thread(target=self._follow, name=name, daemon=True).start()
                self._begun = True
            return not self._begun and not self._stopped

    def nudge(self) -> None:
        """There may be something new: do not wait for the next look."""
        self._nudge.set()
        self.look()

    def stop(self) -> None:
        """The stream is not wanted any more."""
        self._stopped = True
        self._nudge.set()

    def _follow(self) -> None:
        while not self._stopped:
            # The end is read before the size: once it is there, the size is final.
            ended = self.slot.exit() is not None
            size = self.slot.log_size()
            if self.offset < size:
                self._outlast(self._ship())
            elif ended:
                return
            else:
                self._wait(_POLL_S)

    def _wait(self, wait_s: float) -> bool:
        """Wait so long; True: there was a nudge before."""
        is_nudged = wait_s > 0 and self._nudge.wait(wait_s)
        if is_nudged:
            self._nudge.clear()
        return is_nudged

    def _outlast(self, wait_s: float) -> None:
        """Wait before the next try; after one that failed, what is written meanwhile is kept."""
        while wait_s > _FLUSH_S and self._durable:
            if self._wait(_FLUSH_S):
                return
            wait_s -= _FLUSH_S
            self._make_durable()
        self._wait(wait_s)

    def _ship(self) -> float:
        """Send one chunk; returns how long to wait before the next look."""
        try:
            chunk = self._read()
            ack = self.client.send_log(self.fence, self.rank, self.offset, chunk)
        except ServerAway as problem:
            logger.debug("log of attempt %d: %s", self.fence, problem)
            self._make_durable()
            return self._backoff.next_s(problem)
        except OSError as problem:
            # Too many open files, a disk that hangs: it may pass, and nobody else reads this file.
            logger.warning("log of attempt %d cannot be read now: %s", self.fence, problem)
            return self._backoff.next_s()
        except Refused as problem:
            return self._heed(problem)
        reach("agent.log-acknowledged")
        self._backoff.reset()
        self._durable = 0
        stuck = ack.size <= self.offset
        self._move_to(ack.size)
        if stuck:
            # The server took nothing: the same bytes again at once would only be noise.
            return self._backoff.next_s()
        return 0.0 if len(chunk) == MAX_LOG_CHUNK else _POLL_S

    def _make_durable(self) -> None:
        """While nobody takes it, this file is the only copy; it has to survive a power cut too."""
        with suppress(OSError), open(self.slot.log_path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > self._durable:
                os.fsync(stream.fileno())
                self._durable = size

    def _read(self) -> bytes:
        with open(self.slot.log_path, "rb") as stream:
            stream.seek(self.offset)
            return stream.read(MAX_LOG_CHUNK)

    def _heed(self, problem: Refused) -> float:
        expected = problem.refusal.facts.get("expected", "")
        if problem.status == 409 and expected.isdigit():
            if int(expected) == self.offset:
                return self._backoff.next_s()
            self._move_to(int(expected))
            return 0.0
        if problem.status in _UNAUTHORISED:
            return self._backoff.next_s()
        logger.error("the log of attempt %d ends here: %s", self.fence, problem)
        self._stopped = True
        return 0.0

    def _move_to(self, size: int) -> None:
        self.offset = size
        try:
            self.slot.note_shipped(size)
        except OSError:
            logger.debug("cannot note the shipped size of attempt %d", self.fence)
