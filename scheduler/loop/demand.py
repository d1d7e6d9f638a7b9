"""What jobs have asked for lately: what the engine keeps room for if the policy packs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.db.models import Sum

from scheduler.engine.snapshot import NONE, WHOLE_MILLI, Demand, Snapshot, ints
from scheduler.models import Job

WINDOW = timedelta(days=14)
# The mix of two weeks changes slowly, and counting it reads every job of that time.
COUNT_EVERY = timedelta(minutes=10)


@dataclass(slots=True)
class DemandMemory:
    """Shares by GPUs, cpus and GPU model, as counted last; empty at first."""

    rows: list[tuple[int, int, str, int]] = field(default_factory=list)
    counted_at: datetime | None = None

    def add_to(self, snapshot: Snapshot, *, now: datetime) -> Snapshot:
        """The snapshot with the demand of the last two weeks, what waits included."""
        if self.counted_at is None or not timedelta(0) <= now - self.counted_at < COUNT_EVERY:
            self.rows, self.counted_at = _count(now), now
        # Nobody keeps room for models that no present device has.
        row_of = {"": NONE} | {name: row for row, name in enumerate(snapshot.models)}
        rows = [row for row in self.rows if row[2] in row_of]
        return replace(
            snapshot,
            demand=Demand(
                gpus=ints([gpus for gpus, _, _, _ in rows]),
                gpu_milli=ints([WHOLE_MILLI] * len(rows)),
                cpus=ints([cpus for _, cpus, _, _ in rows]),
                model=ints([row_of[model] for _, _, model, _ in rows]),
                count=ints([count for _, _, _, count in rows]),
            ),
        )


def _count(now: datetime) -> list[tuple[int, int, str, int]]:
    # Parts of cards are devices of their own; nobody keeps whole ones free for them.
    whole = Job.objects.filter(queued_at__gte=now - WINDOW, gpu_milli=WHOLE_MILLI)
    asked = whole.order_by("gpus_per_node", "cpus", "gpu_model")
    return list(asked.values_list("gpus_per_node", "cpus", "gpu_model").annotate(Sum("nodes")))
