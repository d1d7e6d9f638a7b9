"""What is asked in each cycle must not read all that ever ran."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.loop.loading.whole import load_snapshot
from tests.pages.yard import build_yard

# Of SQLite alone: PostgreSQL plans by what it counted.
pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_jobs_that_may_be_stopped_are_found_by_the_state_of_jobs(root, alice, project):
    build_yard(root, alice, project)
    now = timezone.now()
    loaded = load_snapshot(now, moves=True, half_life_s=60.0)
    with CaptureQueriesContext(connection) as asked:
        loaded.with_running(rest_s=600.0, now=now)
    statements = [one["sql"] for one in asked if '"scheduler_attempt"' in one["sql"]]
    assert len(statements) == 2
    for statement in statements:
        with connection.cursor() as cursor:
            steps = [row[3] for row in cursor.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert not [step for step in steps if step.startswith("SCAN")], steps
