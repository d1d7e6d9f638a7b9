"""Past use, decayed: what was charged, counted once and forgotten by halves.

With half-life H an entry of s GPU-seconds that ended t seconds ago counts s x 2^(-t/H). The sum is
kept as it was at `counted_until`, so a later reader multiplies it by one factor. Entries are taken
up by the time they were written, some minutes late, so that none is missed whose transaction was
still open; what runs meanwhile counts as held. A change of the half-life counts from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.models import PastUse, UsageEntry

# No transaction that charges is open longer than this.
LAG = timedelta(minutes=5)
# Older entries count less than a thousandth.
HALF_LIVES = 10


@transaction.atomic
def count_past_use(*, now: datetime, half_life_s: float) -> int:
    """Take up what was charged since the last time; returns how many people's rows were written.

    Two reading statements and one that writes. The first time it goes back some half-lives.
    """
    rows = {(row.team_id, row.user_id): row for row in PastUse.objects.select_for_update()}
    until = now - LAG
    since = max((row.counted_until for row in rows.values()), default=_far_back(now, half_life_s))
    if since >= until:
        return 0
    sums = {
        key: row.gpu_seconds * _left(row.counted_until, until, half_life_s)
        for key, row in rows.items()
    }
    charged = UsageEntry.objects.filter(created_at__gte=since, created_at__lt=until)
    for team, user, ended_at, seconds in charged.values_list(
        "project__team_id", "job__owner_id", "period_end", "gpu_seconds"
    ).iterator():
        counts = seconds * _left(ended_at, until, half_life_s)
        sums[team, user] = sums.get((team, user), 0.0) + counts
    _write(sums.items(), until)
    return len(sums)


def _write(sums: Iterable[tuple[tuple[int, int], float]], until: datetime) -> None:
    """In one statement. A refund may take more than was left of what it refunds."""
    PastUse.objects.bulk_create(
        [
            PastUse(team_id=team, user_id=user, gpu_seconds=max(0.0, s), counted_until=until)
            for (team, user), s in sums
        ],
        update_conflicts=True,
        update_fields=["gpu_seconds", "counted_until"],
        unique_fields=["team", "user"],
    )


def decayed_use(now: datetime, half_life_s: float) -> dict[tuple[int, int], float]:
    """By team and person: GPU-seconds as they count now. One query."""
    return {
        (team, user): seconds * _left(counted, now, half_life_s)
        for team, user, seconds, counted in PAST_USE.read()
    }


def _past_use() -> QuerySet[PastUse, tuple[Any, ...]]:
    return PastUse.objects.values_list("team_id", "user_id", "gpu_seconds", "counted_until")


PAST_USE = AskedOnce(_past_use)


def _left(then: datetime, now: datetime, half_life_s: float) -> float:
    """How much of what was used at `then` still counts."""
    age_s = max(0.0, (now - then).total_seconds())
    return float(2.0 ** -(age_s / half_life_s))


def _far_back(now: datetime, half_life_s: float) -> datetime:
    earliest = datetime(2000, 1, 1, tzinfo=UTC)
    try:
        return max(earliest, now - timedelta(seconds=HALF_LIVES * half_life_s))
    except OverflowError:
        return earliest
