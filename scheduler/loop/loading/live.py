"""Live jobs that may be stopped for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

import numpy as np
from django.db.models import F, QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import NONE, Running, floats
from scheduler.loop.loading.accounts import Owners
from scheduler.loop.loading.columns import ModelRows, columns_of
from scheduler.loop.loading.jobs import JOB_FIELDS, Rows, as_waiting
from scheduler.models import Attempt
from scheduler.states import LIVE_JOB_STATES, MADE_TO_MOVE, AttemptState

# What preparing a job again costs beside the work it lost: fetching, starting, warming up.
RESTART_S = 60.0
_ATTEMPT_FIELDS = ("started_at", "checkpoint_at")
_NAMES = (*JOB_FIELDS, *_ATTEMPT_FIELDS, "min_runtime_s")


def runs_below(tier: int) -> bool:
    """Whether a job of a lower tier is live that lets itself be stopped. One query."""
    return _live().filter(job__tier__lt=tier).exists()


def has_elastic() -> bool:
    """Whether a job is live that could go on with another number of nodes. One query."""
    return _live().filter(job__nodes_min__lt=F("job__nodes"), job__is_shaped=True).exists()


def _live() -> QuerySet[Attempt]:
    # By the state of jobs: of attempts there are all that ever were.
    live = Attempt.objects.filter(job__state__in=LIVE_JOB_STATES, job__preemptible=True)
    return live.exclude(state__in=(AttemptState.ENDED, AttemptState.STOPPING)).order_by()


def load_running(
    pool_row: Mapping[int, int],
    queue_row: Mapping[int, int],
    models: tuple[str, ...],
    owners: Owners,
    *,
    rest_s: float,
    now: datetime,
) -> Running:
    """Every live job that lets itself be stopped and is not stopping already.

    Two queries. A job that is being prepared has not run yet, so a promised run time holds for it
    in full.
    """
    # Ordered here: asked for by job, SQLite goes through all attempts that ever were in that order.
    rows = columns_of(sorted(_LIVE.read(), key=itemgetter(_NAMES.index("pk"))), _NAMES)
    known = ModelRows(models)
    rows["queued_at"] = [moment.timestamp() for moment in rows["queued_at"]]
    jobs = as_waiting(rows, Rows(pool_row, queue_row, known, owners))
    # Nothing that is present is of a model nobody has; what runs there now may not be moved.
    model = np.where(jobs.model < len(models), jobs.model, NONE)
    ran_s = floats([(now - at).total_seconds() if at else 0.0 for at in rows["started_at"]])
    ran_s = np.maximum(ran_s, 0.0)
    ages_s = [
        max(0.0, (now - at).total_seconds()) if at else np.inf for at in rows["checkpoint_at"]
    ]
    stopped_at = _stopped_lately(now - timedelta(seconds=rest_s)) if rest_s else {}
    rested_s = [
        (now - stopped_at[job]).total_seconds() if job in stopped_at else np.inf
        for job in rows["pk"]
    ]
    return Running.of_jobs(
        replace(
            jobs,
            model=model,
            remaining_s=floats(np.maximum(jobs.remaining_s - ran_s, 1.0)),
            attained_s=ran_s,
        ),
        restart_cost_s=floats(np.full(len(jobs), RESTART_S)),
        ran_s=ran_s,
        checkpoint_age_s=floats(ages_s),
        least_s=floats(rows["min_runtime_s"]),
        rested_s=floats(np.maximum(rested_s, 0.0)),
    )


def _live_rows() -> QuerySet[Attempt, tuple[Any, ...]]:
    fields = (f"job__{name}" for name in JOB_FIELDS)
    return _live().values_list(*fields, *_ATTEMPT_FIELDS, "job__min_runtime_s")


def _stopped_since(since: datetime) -> QuerySet[Attempt, tuple[datetime | None, int]]:
    # By the state of jobs, and not grouped there, for the same reasons.
    stopped = Attempt.objects.filter(
        job__state__in=LIVE_JOB_STATES, end_reason__in=sorted(MADE_TO_MOVE), ended_at__gte=since
    )
    return stopped.order_by().values_list("ended_at", "job_id")


_LIVE, _STOPPED = AskedOnce(_live_rows), AskedOnce(_stopped_since)


def _stopped_lately(since: datetime) -> dict[int, datetime]:
    """By live job, when it was last stopped for another, if that is not long ago."""
    found = _STOPPED.read(since)
    return {job: at for at, job in sorted((at, job) for at, job in found if at)}
