"""How much of their time limits jobs really run: what forecasts of starts call usual."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from statistics import median

from django.db.models import QuerySet

from accounts.statements import AskedOnce, asked_together
from scheduler.engine.snapshot import Snapshot, floats
from scheduler.loop.loading.columns import seconds_of
from scheduler.loop.loading.texts import as_text, rows_of
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
            usual = _usual(ENDED.read(pk)[0][0])
            if usual is not None:
                found[name] = usual
    return found


# Who asks again and again is mostly told the same.
@lru_cache(maxsize=64)
def _usual(text: str | None) -> float | None:
    """The median of the jobs of this text; None of too few."""
    shares = [
        (seconds_of(end) - seconds_of(start)) / limit_s for start, end, limit_s in rows_of(text)
    ]
    return min(1.0, max(_LEAST_SHARE, median(shares))) if len(shares) >= LEARN_LEAST else None


def _ended(pool: int) -> QuerySet[Job, tuple[str | None]]:
    ended = Job.objects.filter(
        pool=pool,
        state__in=FINAL_JOB_STATES,
        started_at__isnull=False,
        ended_at__isnull=False,
    ).order_by("-ended_at")
    last = Job.objects.filter(pk__in=ended.values("pk")[:LEARN_FROM])
    return as_text(last, ("started_at", "ended_at", "time_limit_s"))


ENDED = AskedOnce(_ended)
