"""Where the rows are: a file beside the program, or PostgreSQL where DATABASE_URL names one."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import environ
from django.core.exceptions import ImproperlyConfigured

from portal.settings import env

_SCHEMES = ("postgres", "postgresql")
_SYNCHRONOUS = env.choice("TRAINYARD_SQLITE_SYNCHRONOUS", "NORMAL", "FULL", "EXTRA", "OFF")
IS_FLUSHED = _SYNCHRONOUS in ("FULL", "EXTRA")


def sqlite(state: Path) -> dict[str, Any]:
    """The file in the folder of everything that is kept."""
    return {
        "ENGINE": "portal.embedded.sqlite",
        "NAME": str(state / "trainyard.sqlite3"),
        # Threads stay, see portal/doors.py; a file that was put in place of this one is soon seen.
        "CONN_MAX_AGE": 60,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": (
                f"PRAGMA journal_mode=WAL;PRAGMA synchronous={_SYNCHRONOUS};"
                "PRAGMA foreign_keys=ON;PRAGMA temp_store=MEMORY;PRAGMA mmap_size=134217728;"
                "PRAGMA journal_size_limit=67108864;PRAGMA cache_size=-20000;"
            ),
        },
    }


def postgres(url: str) -> dict[str, Any]:
    """The one that `url` names; empty where it names none. Raises ImproperlyConfigured."""
    if not url:
        return {}
    if url.partition("://")[0] not in _SCHEMES:
        raise ImproperlyConfigured(
            "DATABASE_URL must begin with postgres://; without it the database is a file in "
            "TRAINYARD_STATE_DIR"
        )
    named: dict[str, Any] = environ.Env.db_url_config(url)
    return named | {
        # A socket's folder is written as a quoted host: postgres://user@%2Frun%2Fpostgresql/name
        "HOST": unquote(named["HOST"]),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            **named.get("OPTIONS", {}),
            "pool": {
                "min_size": 1,
                "max_size": env.whole("TRAINYARD_DATABASE_POOL", 8, low=1, high=200),
            },
        },
    }
