"""Which moves between states were made, as the database itself saw them."""

from __future__ import annotations

from collections import Counter

from django.db import connection

Edge = tuple[str, str, str]
WATCHED = ("job", "attempt", "node")

_SQLITE = """
CREATE TEMP TRIGGER IF NOT EXISTS watch_{table} AFTER UPDATE OF state ON main.scheduler_{table}
WHEN OLD.state <> NEW.state
BEGIN INSERT INTO walked VALUES ('{table}', OLD.state, NEW.state); END
"""
_POSTGRES = """
CREATE OR REPLACE FUNCTION pg_temp.note_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO walked VALUES ('{table}', OLD.state, NEW.state); RETURN NULL; END $$;
CREATE TRIGGER watch_{table} AFTER UPDATE OF state ON scheduler_{table} FOR EACH ROW
WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION pg_temp.note_{table}()
"""


def watch_edges() -> None:
    """From now on, until the transaction is rolled back."""
    words = _SQLITE if connection.vendor == "sqlite" else _POSTGRES
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE IF NOT EXISTS walked (kind text, was text, is_now text)")
        for table in WATCHED:
            cursor.execute(words.format(table=table))


def edges_walked() -> Counter[Edge]:
    """How often each move was made."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT kind, was, is_now FROM walked")
        return Counter((kind, was, now) for kind, was, now in cursor.fetchall())
