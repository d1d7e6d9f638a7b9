"""What tests with two connections wait for before they go on."""

from __future__ import annotations

import time

from django.db import connection

_PATIENCE_S = 30.0


def wait_until_somebody_waits() -> None:
    """For a lock of a row, in PostgreSQL; fails if nobody comes to."""
    until = time.monotonic() + _PATIENCE_S
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")
