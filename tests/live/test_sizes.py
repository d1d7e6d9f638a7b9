"""What SQLite's planner knows of large tables, and who learns of it."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from portal.celery import learn_sizes as task
from portal.embedded.sqlite.base import DatabaseWrapper
from portal.embedded.sqlite.sizes import AT_LEAST, learn_sizes
from tests.live.test_doors import connect

# The databases of this file are its own.
pytestmark = pytest.mark.once

_FILL = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s) "
    "INSERT INTO jobs (project, spec) SELECT i %% %s, 'a long text' FROM n"
)
_TIMES = count()
_NEWEST = "SELECT * FROM jobs WHERE project IN (0, 1) ORDER BY id DESC LIMIT 50"


def fill(connection: DatabaseWrapper, rows: int, projects: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_FILL, [rows, projects])


def sorts(connection: DatabaseWrapper) -> bool:
    """Whether it reads all rows of the projects and sorts them."""
    with connection.cursor() as cursor:
        # To explain looks by itself neither whether the schema has changed, nor, said again in the
        # same words, whether the plan has.
        cursor.execute(_NEWEST).fetchall()
        again = " " * next(_TIMES)
        plan = cursor.execute(f"EXPLAIN QUERY PLAN {_NEWEST}{again}").fetchall()
    return any("ORDER BY" in row[3] for row in plan)


def outermost(connection: DatabaseWrapper) -> str:
    """What is read first of the jobs without an end that somebody was warned of."""
    of_warnings = "SELECT * FROM warnings w JOIN jobs j ON j.id = w.job WHERE j.spec IS NOT NULL"
    with connection.cursor() as cursor:
        cursor.execute(of_warnings).fetchall()
        again = " " * next(_TIMES)
        return str(cursor.execute(f"EXPLAIN QUERY PLAN {of_warnings}{again}").fetchone()[3])


@pytest.fixture
def two(tmp_path: Path, django_db_blocker: Any) -> Any:
    """Two connections to one database with an empty table; the first can be found by its name."""
    path = tmp_path / "sizes.sqlite3"
    with django_db_blocker.unblock():
        first, second = connect(path), connect(path)
        connections[first.alias] = first
        with first.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, project INTEGER, spec TEXT)")
            cursor.execute("CREATE INDEX by_project ON jobs (project)")
        yield first, second
        del connections[first.alias]
        first.close()
        second.close()


def test_a_large_table_is_learnt_once_and_by_every_connection(two: Any) -> None:
    first, second = two
    fill(first, 40_000, 3)
    assert sorts(first) and sorts(second)
    assert learn_sizes(first) == ["jobs"]
    assert not sorts(first) and not sorts(second)
    assert learn_sizes(first) == []


def test_what_has_grown_by_half_is_learnt_again(two: Any) -> None:
    first, second = two
    fill(first, 20_000, 20_000)
    assert learn_sizes(first) == ["jobs"] and sorts(second)
    fill(first, 9_000, 1)
    assert learn_sizes(first) == []
    with first.cursor() as cursor:
        cursor.execute("DELETE FROM jobs")
    fill(first, 40_000, 3)
    assert learn_sizes(first) == ["jobs"] and not sorts(second)


def test_small_tables_are_left_alone(two: Any) -> None:
    first, second = two
    fill(first, AT_LEAST - 1, 2)
    assert learn_sizes(first) == [] and sorts(second)
    with first.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        assert cursor.fetchall() == [("jobs",)]


def test_beside_a_large_table_small_ones_are_known_to_be_small(two: Any) -> None:
    """What waits for three of 40 000 is found by the three, not by reading the 40 000."""
    first, second = two
    with first.cursor() as cursor:
        cursor.execute("CREATE TABLE warnings (id INTEGER PRIMARY KEY, job INTEGER)")
        cursor.execute("CREATE INDEX by_job ON warnings (job)")
    fill(first, 40_000, 3)
    assert learn_sizes(first) == ["jobs"]
    assert outermost(second) == "SCAN w"
    assert learn_sizes(first) == []
    with first.cursor() as cursor:
        cursor.execute("INSERT INTO warnings (job) SELECT id FROM jobs LIMIT %s", [AT_LEAST + 1])
    assert learn_sizes(first) == ["warnings"]


def test_other_databases_know_by_themselves() -> None:
    elsewhere: Any = SimpleNamespace(vendor="postgresql")
    assert learn_sizes(elsewhere) == []


@pytest.mark.django_db
def test_it_comes_again_by_itself() -> None:
    assert task.name in task.app.conf.beat_schedule
    assert task() == 0
