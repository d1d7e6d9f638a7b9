"""What is asked in each cycle must not read all that ever ran."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.loop.loading.whole import load_snapshot
from scheduler.models import Node
from scheduler.selectors.freeing.emptying import emptying, without_gpus
from tests.pages.yard import build_yard

# Of SQLite alone: PostgreSQL plans by what it counted.
pytestmark = [pytest.mark.django_db, pytest.mark.once]

# What is known of 200 000 jobs that have run on 512 nodes.
_YEARS = (
    ("scheduler_job", "job_by_state", "210830 35139 1"),
    ("scheduler_attempt", "scheduler_attempt_job_id_6311d83f", "200586 1"),
    ("scheduler_placement", "scheduler_placement_node_id_de1d9e7a", "219086 422"),
    ("scheduler_placement", "scheduler_placement_attempt_id_ecda31b7", "219086 1"),
    ("scheduler_placement", "sqlite_autoindex_scheduler_placement_1", "219086 1 1"),
    ("scheduler_allocation", "scheduler_allocation_placement_id_b1d94268", "381465 2"),
)
# The few of one attempt, or those that are open.
_FEW = ("attempt_id=?", "placement_open_on_node")


def as_after_years() -> None:
    """Have SQLite plan as if there were as much."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scheduler_node")
        cursor.execute("DELETE FROM sqlite_stat1")
        cursor.executemany("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (%s, %s, %s)", _YEARS)
        # Nothing is counted: what the table says is read.
        cursor.execute("ANALYZE sqlite_schema")


def steps_of(statement: str) -> list[str]:
    """How SQLite would go about it."""
    with connection.cursor() as cursor:
        return [row[3] for row in cursor.execute(f"EXPLAIN QUERY PLAN {statement}")]


def test_jobs_that_may_be_stopped_are_found_by_the_state_of_jobs(root, alice, project):
    build_yard(root, alice, project)
    now = timezone.now()
    loaded = load_snapshot(now, moves=True, half_life_s=60.0)
    with CaptureQueriesContext(connection) as asked:
        loaded.with_running(rest_s=600.0, now=now)
    statements = [one["sql"] for one in asked if '"scheduler_attempt"' in one["sql"]]
    assert len(statements) == 2
    for statement in statements:
        steps = steps_of(statement)
        assert not [step for step in steps if step.startswith("SCAN")], steps


def test_who_holds_a_node_is_found_by_the_jobs_that_live(root, alice, project):
    """Of a node the thousands of its earlier holders are not read, nor all there ever were."""
    build_yard(root, alice, project)
    as_after_years()
    for nodes in ([Node.objects.first()], list(Node.objects.all()) * 200):
        with CaptureQueriesContext(connection) as asked:
            assert emptying(root, nodes, now=timezone.now())
            without_gpus(nodes)
        read = [one["sql"] for one in asked if 'FROM "scheduler_placement"' in one["sql"]]
        assert len(read) == 2
        for statement in read:
            steps = [one for one in steps_of(statement) if " scheduler_placement" in one]
            assert steps and all(any(few in one for few in _FEW) for one in steps), steps
