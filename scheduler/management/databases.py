"""Which database a command acts on, in words: plain manage.py takes another one than the units."""

from __future__ import annotations

from django.db import connection


def database_in_words() -> str:
    """`PostgreSQL trainyard at db.example.org`, or the path of the SQLite file."""
    named = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"SQLite {named['NAME']}"
    return f"PostgreSQL {named['NAME']} at {named['HOST'] or 'this machine'}"
