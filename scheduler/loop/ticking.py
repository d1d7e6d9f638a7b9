"""The scheduling loop in a thread of its own, as a worker carries it: a cycle a second at least."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path

from django.conf import settings
from django.db import connections
from django.utils import timezone

from scheduler.collecting import settle
from scheduler.events import SCHEDULING
from scheduler.hearing import call_at_hints
from scheduler.loop.cycle import Scheduler
from scheduler.loop.lease import own_name
from scheduler.services.timeline.clock import CLOCK

logger = logging.getLogger(__name__)

TICK_S = 1.0
# Wakes that arrive within this time share one cycle.
COALESCE_S = 0.01
# A cycle rests for as long as it took, so that a busy loop leaves the database to others half of
# the time, and what is given back meanwhile is shared out by one cycle instead of by many.
MAX_REST_S = 0.1
STOP_WITHIN_S = 15.0

_wake = threading.Event()


class LoopThread(threading.Thread):
    """Runs cycles until told to stop: one a second at least, at once after a wake."""

    def __init__(self) -> None:
        super().__init__(name="scheduling-loop", daemon=True)
        self._scheduler = Scheduler(holder=own_name())
        self._stopping = threading.Event()

    def run(self) -> None:
        """Tick; on the way out hand the lease to whoever waits for it."""
        settle()
        CLOCK.keep_in(Path(settings.STATE_DIR) / "clock.json")
        threading.Thread(target=_hear_wakes, name="wakes", daemon=True).start()
        while not self._stopping.is_set():
            began = time.monotonic()
            self._tick()
            took_s = time.monotonic() - began
            if self._scheduler.lease is None:
                # What can start is the holder's affair.
                self._stopping.wait(TICK_S)
                continue
            rested_at = time.monotonic() + min(MAX_REST_S, took_s)
            _wake.wait(TICK_S)
            if _wake.is_set():
                self._stopping.wait(max(COALESCE_S, rested_at - time.monotonic()))
        try:
            self._scheduler.release(timezone.now())
        except Exception:
            logger.exception("the lease could not be released; it runs out by itself")
        finally:
            connections.close_all()

    def stop(self) -> None:
        """Finish the cycle under way, release the lease, end."""
        self._stopping.set()
        _wake.set()
        self.join(STOP_WITHIN_S)

    def _tick(self) -> None:
        _wake.clear()
        CLOCK.look(timezone.now(), time.monotonic())
        try:
            self._scheduler.run_cycle(timezone.now())
        except Exception:
            logger.exception("a scheduling cycle failed; the next one tries again")
            connections.close_all()


def _hear_wakes() -> None:
    """Serve `_wake` for as long as the process lives."""
    asyncio.run(call_at_hints(SCHEDULING, _wake.set))
