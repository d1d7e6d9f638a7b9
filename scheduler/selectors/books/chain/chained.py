"""Stored entries as the ledger knows them, and as links of its chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import F, QuerySet

from scheduler.ledger.entries import Entry, EntryKind, Sealed
from scheduler.models import LedgerEntry, Period


def as_entry(row: LedgerEntry, period: str, service_period: str) -> Entry:
    """A stored row as the ledger knows it."""
    return Entry(
        batch=row.batch,
        kind=EntryKind(row.kind),
        period=period,
        service_period=service_period,
        debit=row.debit,
        credit=row.credit,
        amount=row.amount,
        currency=row.currency,
        sku=row.sku,
        rate_id=str(row.rate_id or ""),
        unit_price=row.unit_price,
        gpu_seconds=row.gpu_seconds,
        lines=row.lines,
        lines_digest=row.lines_digest,
        reason=row.reason,
        created_by=row.created_by,
        number=row.number,
    )


def chain_of(rows: Iterable[LedgerEntry]) -> Iterator[Sealed]:
    """Stored rows as links of the chain; expects `period_name` and `service_name` annotated."""
    for row in rows:
        names: Any = row
        entry = as_entry(row, names.period_name, names.service_name)
        yield Sealed(entry, row.previous, row.hash)


def entries_named() -> QuerySet[LedgerEntry]:
    """All entries in order, with the names of their months."""
    return LedgerEntry.objects.annotate(
        period_name=F("period__name"), service_name=F("service_period__name")
    ).order_by("number")


def originals_of(row: Period) -> dict[tuple[int, str, str], dict[int | None, int]]:
    """What corrections of a month put right: the first entry by month, account and SKU, of each
    rate. One statement, and none of a row where nothing was corrected.
    """
    corrections = LedgerEntry.objects.filter(period=row, kind=EntryKind.CORRECTION)
    kinds = (EntryKind.USAGE, EntryKind.IDLE_SHARE, EntryKind.PLATFORM_SHARE)
    months = corrections.values("service_period")
    first = LedgerEntry.objects.filter(period__in=months, kind__in=kinds).order_by("-number")
    found: dict[tuple[int, str, str], dict[int | None, int]] = {}
    for month, side, sku, rate, number in first.values_list(
        "period_id", "debit", "sku", "rate_id", "number"
    ):
        found.setdefault((month, side, sku), {})[rate] = number
    return found
