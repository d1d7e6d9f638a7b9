"""Whose GPUs do little, with the evidence: for boards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import (
    Avg,
    BigIntegerField,
    Count,
    Exists,
    F,
    FloatField,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Sum,
)
from django.db.models.functions import Cast

from accounts.statements import LookedUp
from scheduler.models import Attempt, DeviceSample, Job, SpanOfReadings, SummedHour
from scheduler.models.telemetry import KNOWN_USE
from scheduler.selectors.sharing.reach import of_team
from scheduler.states import LIVE_JOB_STATES, AttemptState

# GPUs that did less than this, on average over so long and lately, are named.
IDLE_OVER, _STILL = timedelta(minutes=30), timedelta(minutes=2)
LOW_PERCENT = 20.0
# Who has run for less loads its data, or its readings are too few to tell anything.
_LEAST_RUN, _LEAST_READINGS = timedelta(minutes=5), 10
# Sums of spans that ended before tell too little of the time.
_SUMMED_S = 600


def doing_little(
    team_id: int, now: datetime, names: Mapping[str, str]
) -> Iterable[QuerySet[Any, dict[str, Any]]]:
    """Attempts of a team and all below it that did little over the whole time and still do.

    `names`: of the columns job, name, owner, gpus, readings, since, mean and highest. One of the
    two parts is empty: where readings of lately are summed by span, the other one does not go
    through all of them. Of those that did little, the last readings say whether they still do.
    """
    running, summed_s = _running(team_id, now), int(now.timestamp()) - _SUMMED_S
    summed = Exists(SummedHour.objects.filter(spans_s__gte=summed_s))
    since = {"at__gte": now - IDLE_OVER, "at__lte": now}
    spans = SpanOfReadings.objects.filter(summed, attempt__in=running, **since).order_by()
    readings = Sum("readings", output_field=BigIntegerField())
    sums = {
        names["readings"]: Cast(readings, BigIntegerField()),
        names["since"]: Min("at"),
        names["mean"]: Sum("percent") / Cast(readings, FloatField()),
        names["highest"]: Max("highest"),
    }
    little = _little(spans, sums, names)
    still = _still(little.values("attempt_id"), now)
    yield _named(_little(spans.filter(attempt__in=still), sums, names), names)
    # None of them where the sums tell it: SQLite makes the list before it looks at anything else.
    still = _still(running.filter(~summed), now)
    samples = DeviceSample.objects.filter(KNOWN_USE, attempt__in=still, **since).order_by()
    raw = {
        names["readings"]: Count("pk"),
        names["since"]: Min("at"),
        names["mean"]: Avg("gpu_percent"),
        names["highest"]: Max("gpu_percent"),
    }
    yield _named(_little(samples, raw, names), names)


def _running(team_id: int, now: datetime) -> QuerySet[Any]:
    """A list and no join, from which SQLite would begin with all that was read of anybody."""
    live = Job.objects.filter(of_team(team_id, "project"), state__in=LIVE_JOB_STATES).order_by()
    running = Attempt.objects.filter(
        job__in=live.values("pk"), state=AttemptState.RUNNING, started_at__lte=now - _LEAST_RUN
    )
    return running.order_by().values("pk")


def _still(attempts: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Those of these attempts whose last readings say so."""
    lately = DeviceSample.objects.filter(KNOWN_USE, attempt__in=attempts, at__gte=now - _STILL)
    means = lately.order_by().values("attempt").annotate(lately=Avg("gpu_percent"))
    return means.filter(lately__lt=LOW_PERCENT).values("attempt")


def _little(
    rows: QuerySet[Any], sums: Mapping[str, Any], names: Mapping[str, str]
) -> QuerySet[Any]:
    low = {f"{names['mean']}__lt": LOW_PERCENT, f"{names['readings']}__gte": _LEAST_READINGS}
    return rows.values("attempt_id").annotate(**sums).filter(Q(**low))


def _named(rows: QuerySet[Any], names: Mapping[str, str]) -> QuerySet[Any]:
    """Whose they are is looked up of each attempt: by a join it would stand beside every reading,
    and all of those be sorted by it."""
    its = Attempt.objects.filter(pk=OuterRef("attempt_id")).order_by()
    gpus = its.annotate(gpus_=F("job__nodes") * F("job__gpus_per_node"))
    columns = {"job": "job_id", "name": "job__name", "owner": "job__owner_id"}
    looked = {names[name]: LookedUp(its.values(column)) for name, column in columns.items()}
    return rows.annotate(**looked, **{names["gpus"]: LookedUp(gpus.values("gpus_"))})
