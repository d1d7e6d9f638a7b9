"""What a trigger of the database asks for each new row must not read what others have."""

from __future__ import annotations

import pytest
from django.db import connection
from django.utils import timezone

from scheduler.models import Allocation, Attempt, Device, Placement
from tests.pages.yard import build_yard

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.postgres,
]


def test_a_whole_card_is_allocated_without_a_look_at_who_has_its_neighbours(root, alice, project):
    """What is asked of parts alone joins eleven tables, for each row; where autovacuum had found
    them empty, it went through all of them each time."""
    yard = build_yard(root, alice, project)
    device, now = Device.objects.first(), timezone.now()
    with connection.cursor() as cursor:
        # As it is written: which plan PostgreSQL makes of empty tables is its own affair.
        cursor.execute("SET LOCAL join_collapse_limit = 1; DISCARD PLANS")
        size = {"node_id": device.node_id, "rank": 0, "cpus": 1, "memory_mib": 1}
        attempts = Attempt.objects.bulk_create(
            Attempt(job=yard.succeeded, number=n + 9, state="ended", assigned_at=now)
            for n in range(20)
        )
        places = Placement.objects.bulk_create(Placement(attempt=a, **size) for a in attempts)
        before = _rows_read(cursor)
        held = {"device": device, "acquired_at": now, "released_at": now}
        Allocation.objects.bulk_create(Allocation(placement=place, **held) for place in places)
        assert _rows_read(cursor) == before


def _rows_read(cursor) -> int:
    """Of what the transaction has read of attempts and jobs."""
    cursor.execute(
        "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))"
        " FROM pg_stat_xact_user_tables WHERE relname IN ('scheduler_attempt', 'scheduler_job')"
    )
    return int(cursor.fetchone()[0])
