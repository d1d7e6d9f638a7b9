"""Sealing on a server that others use, too: it waits for whatever was under way before."""

from __future__ import annotations

import time
from datetime import timedelta

from accounts.services.sealing import seal_audit

NO_MARGIN = timedelta()
LONG_S = 60


def sealed_in_the_end(count: int) -> int:
    """How many events are sealed once at least `count` are, or after a minute.

    Transactions of other databases of the server count as under way, too: those of tests beside
    this one, for example.
    """
    sealed, until = 0, time.monotonic() + LONG_S
    while sealed < count and time.monotonic() < until:
        sealed += seal_audit(margin=NO_MARGIN)
        time.sleep(0.05)
    return sealed
