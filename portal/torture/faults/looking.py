"""Looks for schedules that are due, from some threads at once, for some seconds: beside the worker
that does so anyway. Prints how many jobs came of it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

_LOOKS_FOR_S, _THREADS, _PAUSE_S = 6.0, 3, 0.1


def look_at_once() -> int:
    """All threads begin together; what the database refuses is another one's turn."""
    from django.db import Error, connections
    from django.utils import timezone

    from scheduler.services.recurring.running import submit_due

    gate, came = threading.Barrier(_THREADS), list[int]()

    def look() -> None:
        gate.wait()
        until = time.monotonic() + _LOOKS_FOR_S
        try:
            while time.monotonic() < until:
                with contextlib.suppress(Error):
                    came.append(submit_due(now=timezone.now()))
                time.sleep(_PAUSE_S)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=look) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(came)


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.embedded")
    django.setup()
    sys.stdout.write(str(look_at_once()))
