"""Seconds of devices to rows with a price: counted once, never recomputed.

Boundaries are cut to whole seconds of the database's clock, start and end alike, so the seconds
of a device's successive holders add up exactly and none is counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.selectors.rates import rates_over
from accounts.statements import BuiltOnce
from scheduler.conf import load_conf
from scheduler.models import Allocation, Attempt, UsageEntry
from scheduler.money import cost_of, seconds_between, split_by_hour
from scheduler.services.gathering import Step, afterwards
from scheduler.services.rows.adding import add_rows

# What a row of usage needs to know of the allocation it is for.
_OWED = (
    "pk",
    "acquired_at",
    "released_at",
    "device__model",
    "placement__attempt_id",
    "placement__attempt__job_id",
    "placement__attempt__job__project_id",
    "placement__attempt__job__project__team_id",
)

_CHARGED = (
    *("kind", "allocation", "attempt", "job", "project", "device_model", "period_start"),
    *("period_end", "gpu_seconds", "unit_price", "currency", "cost", "created_at"),
)


def accrue_allocations(allocations: QuerySet[Allocation], *, now: datetime) -> int:
    """Write the rows that are still missing for closed allocations and for full hours of open ones.

    Idempotent: a period that has its row is skipped by the constraint. Returns the number of rows
    offered.
    """
    return _accrue(list(allocations.values_list(*_OWED)), now)


def _accrue(held: Sequence[tuple[Any, ...]], now: datetime) -> int:
    if not held:
        return 0
    rates = rates_over({model for _, _, _, model, *_ in held})
    currency = load_conf().currency
    full_hour, made_at = now.replace(minute=0, second=0, microsecond=0), timezone.now()

    @cache
    def charges(start: datetime, end: datetime, model: str, team: int) -> list[tuple[Any, ...]]:
        """Begin, end, seconds, price, currency and cost of each hour; a gang's devices share it."""
        found = []
        for begin, until in split_by_hour(start, end):
            rate = rates.at(model, begin, team)
            seconds = seconds_between(begin, until)
            price = rate.price_per_gpu_hour if rate else Decimal(0)
            paid = (price, rate.currency if rate else currency, cost_of(seconds, price))
            found.append((begin, until, seconds, *paid))
        return found

    rows = [
        (UsageEntry.Kind.ACCRUAL, pk, attempt_id, job_id, project_id, model, *charge, made_at)
        for pk, acquired_at, released_at, model, attempt_id, job_id, project_id, team in held
        for charge in charges(acquired_at, released_at or full_hour, model, team)
    ]
    add_rows(UsageEntry, _CHARGED, rows, unless_there=True)
    return len(rows)


def accrue_attempt(attempt: Attempt, *, now: datetime) -> None:
    """Charge what the attempt's released devices were held for."""
    afterwards(Step.CHARGE, _accrue_all, [attempt.pk], now=now)


def _accrue_all(attempt_ids: Sequence[int], *, now: datetime) -> None:
    _accrue(_OWING.read(attempt_ids), now)


def _owed_for(attempts: Sequence[int]) -> QuerySet[Allocation, tuple[Any, ...]]:
    held = Allocation.objects.filter(placement__attempt__in=attempts, released_at__isnull=False)
    return held.order_by().values_list(*_OWED)


_OWING = BuiltOnce(_owed_for)


@transaction.atomic
def accrue_usage(*, now: datetime) -> int:
    """The hourly sweep: full hours of devices still held, so that a long job's cost shows."""
    return accrue_allocations(Allocation.objects.filter(released_at__isnull=True), now=now)


def refund_attempt(attempt: Attempt) -> None:
    """Take back everything accrued for an attempt whose end is not billable; idempotent."""
    afterwards(Step.REFUND, _refund_all, [attempt])


def _refund_all(attempts: Sequence[Attempt]) -> None:
    for attempt in attempts:
        _refund(attempt)


def _refund(attempt: Attempt) -> None:
    taken_back = set(
        UsageEntry.objects.filter(attempt=attempt, kind=UsageEntry.Kind.ADJUSTMENT).values_list(
            "allocation_id", "period_start"
        )
    )
    rows = [
        UsageEntry(
            kind=UsageEntry.Kind.ADJUSTMENT,
            allocation_id=entry.allocation_id,
            attempt=attempt,
            job_id=entry.job_id,
            project_id=entry.project_id,
            device_model=entry.device_model,
            period_start=entry.period_start,
            period_end=entry.period_end,
            gpu_seconds=-entry.gpu_seconds,
            unit_price=entry.unit_price,
            currency=entry.currency,
            cost=-entry.cost,
        )
        for entry in UsageEntry.objects.filter(attempt=attempt, kind=UsageEntry.Kind.ACCRUAL)
        if (entry.allocation_id, entry.period_start) not in taken_back
    ]
    UsageEntry.objects.bulk_create(rows)
