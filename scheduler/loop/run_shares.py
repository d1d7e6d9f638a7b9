"""How much of their time limits jobs really run: what forecasts of starts call usual."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import QuerySet

from accounts.statements import AskedOnce, asked_together
from scheduler.engine.snapshot import Snapshot, floats
from scheduler.loop.loading.whole import POOLS
from scheduler.models import Job
from scheduler.states import FINAL_JOB_STATES

# The last so many jobs of a pool tell; with fewer than the least, limits are taken at their word.
LEARN_FROM, LEARN_LEAST = 500, 20
COUNT_EVERY = timedelta(minutes=5)
_LEAST_SHARE = 0.01


@dataclass(slots=True)
class RunShareMemory:
    """The median of run time over time limit by pool name, as counted last; empty at first."""

    share_of: dict[str, float] = field(default_factory=dict)
    counted_at: datetime | None = None

    def add_to(self, snapshot: Snapshot, *, now: datetime) -> Snapshot:
        """The snapshot with its `run_share`; None while nothing is learnt."""
        if self.counted_at is None or not timedelta(0) <= now - self.counted_at < COUNT_EVERY:
            self.share_of, self.counted_at = _count(), now
        if not self.share_of:
            return snapshot
        shares = [self.share_of.get(name, 1.0) for name in snapshot.pools]
        return replace(snapshot, run_share=floats(shares))


def _count() -> dict[str, float]:
    """By pool with enough ended jobs; two statements, one where the pools are known already."""
    found, pools = {}, POOLS.read()
    with asked_together([(ENDED, (pk,)) for pk, _ in pools]):
        for pk, name in pools:
            shares = [
                (end - start).total_seconds() / limit_s for start, end, limit_s in ENDED.read(pk)
            ]
            if len(shares) >= LEARN_LEAST:
                found[name] = min(1.0, max(_LEAST_SHARE, median(shares)))
    return found


def _ended(pool: int) -> QuerySet[Job, tuple[Any, ...]]:
    ended = Job.objects.filter(
        pool=pool,
        state__in=FINAL_JOB_STATES,
        started_at__isnull=False,
        ended_at__isnull=False,
    ).order_by("-ended_at")
    return ended.values_list("started_at", "ended_at", "time_limit_s")[:LEARN_FROM]


ENDED = AskedOnce(_ended)
