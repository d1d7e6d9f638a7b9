"""A new database, made at once, has exactly what one has that went through every step."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

ON_POSTGRES = """
SELECT 'column', table_name, column_name, data_type, is_nullable, column_default, is_identity,
       character_maximum_length::text
  FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid),
       condeferrable::text, condeferred::text, '', ''
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'index', tablename, indexname, indexdef, '', '', '', ''
  FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), '', '', '', ''
  FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, prosrc, '', '', '', '', ''
  FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""


@contextmanager
def another_database(folder: Path) -> Iterator[None]:
    """An empty database as the default one."""
    usual = connections["default"]
    other = usual.copy()
    name = "trainyard_whole"
    if usual.vendor == "sqlite":
        other.settings_dict = {**usual.settings_dict, "NAME": str(folder / name)}
    else:
        with usual.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"CREATE DATABASE {name}")
        other.settings_dict = {**usual.settings_dict, "NAME": name}
    connections["default"] = other
    try:
        yield
    finally:
        other.close()
        connections["default"] = usual
        (folder / name).unlink(missing_ok=True)
        if usual.vendor == "postgresql":
            with usual.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {name}")


def migrated(*, at_once: bool) -> set[tuple[object, ...]]:
    """What the database has after all steps that the squashed ones replace."""
    executor = MigrationExecutor(connection)
    last = {
        node: max(migration.replaces)
        for node, migration in executor.loader.replacements.items()
        if node[0] in ("accounts", "scheduler")
    }
    assert len(last) == 2
    if not at_once:
        executor.loader = MigrationLoader(connection, replace_migrations=False)
    executor.migrate([*(last if at_once else last.values())])
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(ON_POSTGRES)
            return set(cursor.fetchall())
        cursor.execute("SELECT type, tbl_name, name, sql FROM sqlite_master")
        return {
            (*row[:3], tuple(sorted(parts(row[3])))) if row[0] == "table" else row
            for row in cursor.fetchall()
        }


def parts(sql: str) -> list[str]:
    """The columns and constraints of a CREATE TABLE, in whatever order they came."""
    body = sql[sql.index("(") + 1 : sql.rindex(")")]
    depth, found = 0, [""]
    for piece in re.split(r"([(),])", body):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if piece == "," and depth == 0:
            found.append("")
        else:
            found[-1] += piece
    return [part.strip() for part in found]


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_made_at_once_it_is_what_the_steps_make(tmp_path: Path) -> None:
    with another_database(tmp_path):
        step_by_step = migrated(at_once=False)
    with another_database(tmp_path):
        at_once = migrated(at_once=True)
    assert len(at_once) > 300
    assert at_once ^ step_by_step == set()
