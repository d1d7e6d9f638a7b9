"""What fails because something below is away: a later call may succeed, so 503 and never 500."""

from __future__ import annotations

import errno

from django.db import InterfaceError, OperationalError

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
# PostgreSQL's state of a write to a replica or to a database that was made read-only; its driver
# calls that an internal error. SQLite's is an operational one.
_READ_ONLY = "25006"


def is_database_away(error: BaseException | None) -> bool:
    """Whether the database does not answer, or takes no writes for now."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return True
    return getattr(getattr(error, "__cause__", None), "sqlstate", "") == _READ_ONLY


def is_disk_full(error: BaseException) -> bool:
    """Whether a file could not be written for want of room."""
    return isinstance(error, OSError) and error.errno in NO_ROOM
