"""What production can always have, and which jobs may use it meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from django.db.models import Q, QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import NONE, Headroom, Ints, Snapshot, flags, ints
from scheduler.models import Headroom as HeadroomRow
from scheduler.models import Job
from scheduler.states import LIVE_JOB_STATES, JobState, Tier


def with_headroom(snapshot: Snapshot, pool_row: dict[int, int]) -> Snapshot:
    """The snapshot with it: one query, and one for the jobs if there is any.

    Production may use it, and who can be stopped at once: who was promised no run time.
    """
    rows = [
        (pk, pool_row[pool], snapshot.models.index(model) if model else NONE, gpus)
        for pk, pool, model, gpus in HEADROOM.read()
        if not model or model in snapshot.models
    ]
    if not rows:
        return snapshot
    firm = Q(preemptible=False) | Q(min_runtime_s__gt=0)
    states = [JobState.QUEUED, *LIVE_JOB_STATES]
    bound = Job.objects.filter(firm, state__in=states, tier__lt=Tier.PRODUCTION).order_by()
    kept_off = ints(list(bound.values_list("pk", flat=True)))

    def uses(jobs: Ints) -> Ints:
        return ints(~np.isin(jobs, kept_off))

    waiting, held = snapshot.waiting, snapshot.held
    return replace(
        snapshot,
        headroom=Headroom(*(ints(column) for column in zip(*rows, strict=True))),
        waiting=replace(waiting, uses_headroom=flags(uses(waiting.id))),
        held=replace(held, uses_headroom=flags(uses(held.job))),
    )


def _headroom() -> QuerySet[HeadroomRow, tuple[Any, ...]]:
    return HeadroomRow.objects.order_by("pk").values_list("pk", "pool_id", "gpu_model", "gpus")


HEADROOM = AskedOnce(_headroom)
