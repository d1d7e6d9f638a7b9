"""What fails because something below is away: a later call may succeed, so 503 and never 500."""

from __future__ import annotations

import errno

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
# No more files and connections of this process or machine, no memory, no processes.
_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
# What Python says, and no kind of its own for it.
_NO_THREAD = "can't start new thread"
# PostgreSQL's state of a write to a replica or to a database that was made read-only; its driver
# calls that an internal error. SQLite's is an operational one.
_READ_ONLY = "25006"
# A table or column that is not there: PostgreSQL's states, and SQLite's words.
_UNDEFINED = frozenset({"42P01", "42703"})
_NOT_THERE = ("no such table", "no such column", "has no column named")

BEHIND = (
    "The server's program is newer than its database, which must be migrated: an operator types "
    "manage.py prepare, or starts the server anew."
)


def is_database_away(error: BaseException | None) -> bool:
    """Whether the database does not answer, or takes no writes for now."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return True
    return getattr(getattr(error, "__cause__", None), "sqlstate", "") == _READ_ONLY


def is_database_behind(error: BaseException | None) -> bool:
    """Whether something is not there because migrations of this program have not run yet."""
    if not isinstance(error, DatabaseError):
        return False
    text = str(error)
    is_missing = getattr(error.__cause__, "sqlstate", "") in _UNDEFINED
    if not is_missing and not any(words in text for words in _NOT_THERE):
        return False
    try:
        executor = MigrationExecutor(connection)
        return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except DatabaseError:
        return False


def is_disk_full(error: BaseException) -> bool:
    """Whether a file could not be written for want of room."""
    return isinstance(error, OSError) and error.errno in NO_ROOM


def is_exhausted(error: BaseException | None) -> bool:
    """Whether this process gets no more memory, files or threads for now."""
    if isinstance(error, RuntimeError):
        return _NO_THREAD in str(error)
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in _NO_MORE
    )
