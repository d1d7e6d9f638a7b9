"""Seconds of devices to rows with a price: counted once, never recomputed.

Boundaries are cut to whole seconds of the database's clock, start and end alike, so the seconds
of a device's successive holders add up exactly and none is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import QuerySet

from accounts.models import Rate
from accounts.selectors import rates_over
from scheduler.conf import load_conf
from scheduler.models import Allocation, Attempt, UsageEntry
from scheduler.money import cost_of, seconds_between, split_by_hour
from scheduler.services.gathering import Step, afterwards


def accrue_allocations(allocations: Iterable[Allocation], *, now: datetime) -> int:
    """Write the rows that are still missing for closed allocations and for full hours of open ones.

    Idempotent: a period that has its row is skipped by the constraint. Expects placement,
    attempt, job and device selected along. Returns the number of rows offered.
    """
    held = list(allocations)
    if not held:
        return 0
    rates = rates_over({a.device.model for a in held})
    currency = load_conf().currency
    rows = []
    for allocation in held:
        end = allocation.released_at or now.replace(minute=0, second=0, microsecond=0)
        for begin, until in split_by_hour(allocation.acquired_at, end):
            rows.append(
                _row(allocation, begin, until, rates.at(allocation.device.model, begin), currency)
            )
    UsageEntry.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _row(
    allocation: Allocation, begin: datetime, until: datetime, rate: Rate | None, currency: str
) -> UsageEntry:
    attempt = allocation.placement.attempt
    seconds = seconds_between(begin, until)
    price = rate.price_per_gpu_hour if rate else Decimal(0)
    return UsageEntry(
        kind=UsageEntry.Kind.ACCRUAL,
        allocation=allocation,
        attempt=attempt,
        job=attempt.job,
        project_id=attempt.job.project_id,
        device_model=allocation.device.model,
        period_start=begin,
        period_end=until,
        gpu_seconds=seconds,
        unit_price=price,
        currency=rate.currency if rate else currency,
        cost=cost_of(seconds, price),
    )


def _with_owners(queryset: QuerySet[Allocation]) -> QuerySet[Allocation]:
    return queryset.select_related("placement__attempt__job", "device")


def accrue_attempt(attempt: Attempt, *, now: datetime) -> None:
    """Charge what the attempt's released devices were held for."""
    afterwards(Step.CHARGE, _accrue_all, [attempt.pk], now=now)


def _accrue_all(attempt_ids: Sequence[int], *, now: datetime) -> None:
    held = Allocation.objects.filter(placement__attempt__in=attempt_ids, released_at__isnull=False)
    accrue_allocations(_with_owners(held), now=now)


@transaction.atomic
def accrue_usage(*, now: datetime) -> int:
    """The hourly sweep: full hours of devices still held, so that a long job's cost shows."""
    return accrue_allocations(
        _with_owners(Allocation.objects.filter(released_at__isnull=True)), now=now
    )


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
