"""Hand over a job's output folder at the end of an attempt, on a thread of its own.

The server keeps the books: it is told what lies there and says which bytes it wants, so an upload
goes on where it stopped, whoever was killed meanwhile. A job's end does not wait for it; the spool
entry does, because it is what a restarted agent goes on from.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from scheduler.agent.client import Backoff, Client, NotThePortal, Refused, ServerAway
from scheduler.agent.node.outputs import (
    UnfitOutput,
    holds_something,
    list_outputs,
    opened_output,
)
from scheduler.agent.spool import Slot
from scheduler.wire.outputs import OUTPUT_PART, OutputList, OutputWish

_UNAUTHORISED = (401, 403)
# So long a portal that was made before this call answers 404; a proxy does for a moment.
_UNKNOWN_S = 60.0

logger = logging.getLogger(__name__)


class OutputShipper:
    """One rank's folder on its way. `on_done` is called once, when nothing is left to do."""

    def __init__(
        self, slot: Slot, client: Client, retry_cap_s: float, on_done: Callable[[], None]
    ) -> None:
        self.slot = slot
        self.client = client
        self.is_done = False
        self._on_done = on_done
        self._backoff = Backoff(retry_cap_s)
        self._stopped = threading.Event()
        assignment = slot.entry.assignment
        self.fence, self.rank = assignment.fence, assignment.rank

    def start(self) -> None:
        """Begin; at once done when the program never ran or left nothing."""
        launch = self.slot.launch()
        folder = launch.env.get("TRAINYARD_OUTPUT_DIR", "") if launch else ""
        if launch is None or not holds_something(folder):
            self.is_done = True
            return
        threading.Thread(
            target=self._ship_all,
            args=(folder, launch.uid),
            name=f"outputs-{self.fence}-{self.rank}",
            daemon=True,
        ).start()

    def stop(self) -> None:
        """Nobody wants it any more."""
        self._stopped.set()

    def _ship_all(self, folder: str, uid: int | None) -> None:
        try:
            found = list_outputs(folder, uid)
            for wish in self._tell(found):
                self._ship(folder, uid, wish)
        except UnfitOutput as problem:
            logger.warning("outputs of attempt %d: %s", self.fence, problem)
        except Exception:
            logger.exception("outputs of attempt %d could not be handed over", self.fence)
        finally:
            self.is_done = True
            if not self._stopped.is_set():
                self._on_done()

    def _tell(self, found: OutputList) -> tuple[OutputWish, ...]:
        unknown_since: float | None = None
        while not self._stopped.is_set():
            try:
                return self.client.send_outputs(self.fence, self.rank, found).wanted
            except ServerAway as problem:
                is_unknown = isinstance(problem, NotThePortal) and problem.status == 404
                now = time.monotonic()
                unknown_since = (unknown_since or now) if is_unknown else None
                if unknown_since is not None and now - unknown_since >= _UNKNOWN_S:
                    raise UnfitOutput(f"this portal takes no files: {problem}") from None
                self._stopped.wait(self._backoff.next_s(problem))
            except Refused as problem:
                if problem.status not in _UNAUTHORISED:
                    raise UnfitOutput(str(problem)) from None
                self._stopped.wait(self._backoff.next_s())
        return ()

    def _ship(self, folder: str, uid: int | None, wish: OutputWish) -> None:
        """Send one file from the wanted byte on; a refusal ends this file alone."""
        offset = wish.offset
        try:
            with opened_output(folder, wish.name, uid) as source:
                while not self._stopped.is_set():
                    part = os.pread(source, OUTPUT_PART, offset)
                    if not part:
                        return
                    try:
                        ack = self.client.send_output(
                            self.fence, self.rank, wish.number, offset, part
                        )
                    except ServerAway as problem:
                        self._stopped.wait(self._backoff.next_s(problem))
                        continue
                    except Refused as problem:
                        offset = _offset_after(problem, offset)
                        self._stopped.wait(self._backoff.next_s())
                        continue
                    self._backoff.reset()
                    if ack.size <= offset:
                        return
                    offset = ack.size
        except Refused as problem:
            logger.warning("output %r of attempt %d: %s", wish.name, self.fence, problem)
        except (OSError, UnfitOutput) as problem:
            logger.warning("output %r of attempt %d: %s", wish.name, self.fence, problem)


def _offset_after(problem: Refused, offset: int) -> int:
    """Where to go on after a refusal that passes; raises any other again.

    A token may be renewed, and an answer may have been lost, or the server put back.
    """
    expected = problem.refusal.facts.get("expected", "")
    if problem.status == 409 and expected.isdigit():
        return int(expected)
    if problem.status in _UNAUTHORISED:
        return offset
    raise problem


class OutputDesk:
    """The shippers of all attempts here. Thread-safe.

    `forget` is called, under `forget_lock`, for an attempt the server let go of earlier, once its
    files are through.
    """

    def __init__(
        self,
        client: Client,
        retry_cap_s: float,
        forget_lock: AbstractContextManager[object],
        forget: Callable[[Iterable[int]], object],
    ) -> None:
        self._forget_lock = forget_lock
        self._client = client
        self._retry_cap_s = retry_cap_s
        self._forget = forget
        self._shippers: dict[int, OutputShipper] = {}
        self._let_go: set[int] = set()
        self._lock = threading.Lock()

    def ship(self, slot: Slot) -> None:
        """The attempt has ended: hand over what it left."""
        fence = slot.entry.assignment.fence
        shipper = OutputShipper(slot, self._client, self._retry_cap_s, lambda: self._done(fence))
        with self._lock:
            self._shippers[fence] = shipper
        shipper.start()

    def holds_back(self, fence: int) -> bool:
        """Whether its files are on their way yet; if so, it is forgotten when they are through."""
        with self._lock:
            shipper = self._shippers.get(fence)
            if shipper is not None and not shipper.is_done:
                self._let_go.add(fence)
                return True
            self._let_go.discard(fence)
            self._shippers.pop(fence, None)
            return False

    def is_let_go(self, fence: int) -> bool:
        """Whether only its files are still of interest: the server needs no report of it."""
        with self._lock:
            return fence in self._let_go

    def recall(self, fence: int) -> bool:
        """The server asks for it again, as one whose database was put back does: what it had let go
        of is to be reported once more. True where it had."""
        with self._lock:
            was_let_go = fence in self._let_go
            self._let_go.discard(fence)
            return was_let_go

    def _done(self, fence: int) -> None:
        if self.is_let_go(fence):
            with self._forget_lock:
                self._forget([fence])
