"""Held jobs that go on because time passed, or because nobody let them go when somebody should."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduler.services.holding.following import forgotten, overdue
from scheduler.services.holding.moves import reconsider


def release_due(*, now: datetime) -> int:
    """Held jobs whose begin time has come wait for room from now on."""
    due = overdue(now)
    if not due:
        return 0
    with transaction.atomic():
        return reconsider(due, now=now)


def heal_held(*, now: datetime) -> int:
    """Held jobs that the end of another should have let go, and did not; two queries."""
    found = forgotten()
    if not found:
        return 0
    with transaction.atomic():
        return reconsider(found, now=now)
