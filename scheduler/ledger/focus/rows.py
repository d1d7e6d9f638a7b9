"""Lines and entries to rows: one row each, amounts as they are booked, nothing rounded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from scheduler.ledger.entries import RECOVERY, ROUNDING, Entry, EntryKind, effect
from scheduler.ledger.exact import gpu_hours
from scheduler.ledger.focus.columns import columns_of
from scheduler.ledger.focus.facts import Allocation, Booked, Issuer, Origin, Owner, Row
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import DAY_S, ChargeKind, UsageLine
from scheduler.ledger.shares import ratios

_SHARES = frozenset({ChargeKind.IDLE_SHARE, ChargeKind.PLATFORM_SHARE})


def plain_text(amount: Decimal) -> str:
    """An amount without exponent and without zeros that say nothing, but always with a point.

    Readers that guess the type of a column, the official validator among them, would take one of
    whole amounts for integers.
    """
    whole, _, part = format(amount, "f").partition(".")
    return f"{whole}.{part.rstrip('0') or '0'}"


@lru_cache(maxsize=4096)
def moment(at_s: int) -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pseudonym(secret: str, user_id: int) -> str:
    """A name for a person that says nothing about them and stays the same in one installation."""
    return hashlib.sha256(f"{secret}:{user_id}".encode()).hexdigest()[:16]


def _flat(values: Mapping[str, str | int]) -> str:
    return json.dumps(dict(values), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _common(issuer: Issuer, cost: Decimal, owner: Owner, booked: Booked) -> Row:
    amount = plain_text(cost)
    start_s, end_s = _bounds(issuer.month)
    return {
        "AvailabilityZone": owner.zone or None,
        "BilledCost": amount,
        "BillingAccountId": issuer.account_id,
        "BillingAccountName": issuer.account_name,
        "BillingCurrency": issuer.currency,
        "BillingPeriodEnd": moment(end_s),
        "BillingPeriodStart": moment(start_s),
        "CapacityReservationId": owner.reservation or None,
        "CapacityReservationStatus": "Used" if owner.reservation else None,
        "ContractedCost": amount,
        "EffectiveCost": amount,
        "HostProviderName": issuer.cluster,
        "InvoiceId": booked.invoice or None,
        "InvoiceIssuerName": issuer.account_name,
        "ListCost": amount,
        "ProviderName": issuer.cluster,
        "PublisherName": issuer.cluster,
        "ServiceCategory": "Compute",
        "ServiceName": f"GPU Cluster {issuer.cluster}",
        "ServiceProviderName": issuer.cluster,
        "ServiceSubcategory": "Other (Compute)",
        "SubAccountId": owner.team_id or None,
        "SubAccountName": owner.team_name or None,
        "x_ChargebackMode": issuer.charging,
        "x_CostCenterCode": owner.cost_centre or None,
        "x_DatasetVersion": str(issuer.dataset),
        "x_LedgerEntryId": str(booked.entry) if booked.entry else None,
        "x_LedgerHash": booked.hash or None,
        "x_PeriodStatus": issuer.status,
        "x_ProjectId": owner.project_id or None,
        "x_ProjectName": owner.project_name or None,
    }


def is_share(kind: ChargeKind) -> bool:
    """Whether lines of a kind are parts of what was shared."""
    return kind in _SHARES


def origin_of(line: UsageLine) -> Origin:
    """The shared charge a line is a part of."""
    return line.holder, line.pool, line.flavour, line.day_s


def allocations(
    shares: Iterable[tuple[Origin, str, int]],
    pools: Mapping[str, str],
    methods: Mapping[str, Mapping[ChargeKind, str]],
) -> dict[tuple[Origin, str], Allocation]:
    """By origin and account, from seconds: the ratios of an origin add up to exactly 1."""
    by_origin: dict[Origin, dict[str, int]] = {}
    for origin, account, seconds in shares:
        parts = by_origin.setdefault(origin, {})
        parts[account] = parts.get(account, 0) + seconds
    return {
        (of, account): Allocation(pools.get(of[1], of[1]), ratio, methods.get(of[1], {}))
        for of, parts in by_origin.items()
        for account, ratio in ratios(parts).items()
    }


def _allocated(line: UsageLine, part: Allocation) -> Row:
    bucket = line.holder.removeprefix("share:")
    # Put together as text: a ratio must not become a float on its way.
    element = (
        f'{{"AllocatedRatio":{part.ratio:f},"UsageQuantity":{line.gpu_seconds},'
        '"UsageUnit":"GPU-Seconds"}'
    )
    return {
        "AllocatedMethodDetails": f'{{"Elements":[{element}]}}',
        "AllocatedMethodId": part.methods.get(line.kind, f"{line.kind.value}-v1"),
        "AllocatedResourceId": f"{line.holder}:{line.pool}:{line.flavour}",
        "AllocatedResourceName": f"{bucket.replace('_', ' ')}, {line.flavour}, {part.pool_name}",
        "AllocatedTags": _flat({"platform/bucket": bucket, "platform/pool": part.pool_name}),
    }


def _described(line: UsageLine, owner: Owner) -> str:
    """`8 x H100, run-guaranteed, team Vision, job 17`."""
    what = f"{owner.gpus} x {line.flavour}" if owner.gpus else line.flavour
    payer = "team" if owner.team_id.startswith("team:") else "paid by"
    named = ((payer, owner.team_name), ("job", owner.job_id))
    return ", ".join([what, line.kind.value, *(f"{word} {name}" for word, name in named if name)])


@lru_cache(maxsize=1024)
def _priced(flavour: str, kind: ChargeKind, memory_gib: int | None) -> str:
    details: dict[str, str | int] = {"x_GpuModel": flavour, "x_Tier": kind.value}
    if memory_gib:
        details["x_GpuMemoryGiB"] = memory_gib
    return _flat(details)


@lru_cache(maxsize=64)
def _bounds(month: Month) -> tuple[int, int]:
    return month.start_s, month.end_s


def line_row(
    line: UsageLine,
    owner: Owner,
    booked: Booked,
    issuer: Issuer,
    part: Allocation | None = None,
) -> Row:
    """A usage line's row; the day is clipped to the month. `part`: of what is shared."""
    price, hours = plain_text(line.unit_price), plain_text(line.gpu_hours)
    is_part = is_share(line.kind)
    start_s, end_s = _bounds(issuer.month)
    row = _common(issuer, line.amount, owner, booked)
    row |= {
        "ChargeCategory": "Usage",
        "ChargeDescription": _described(line, owner),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": moment(min(line.day_s + DAY_S, end_s)),
        "ChargePeriodStart": moment(max(line.day_s, start_s)),
        "ConsumedQuantity": str(line.gpu_seconds),
        "ConsumedUnit": "GPU-Seconds",
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingCategory": "Standard",
        "PricingQuantity": hours,
        "PricingUnit": "GPU-Hours",
        "ResourceId": f"{line.holder}:{line.pool}" if is_part else f"attempt:{line.holder}",
        "ResourceName": owner.job_name or None,
        "ResourceType": "Idle Capacity" if is_part else owner.resource,
        "SkuId": f"{line.flavour}:{line.kind.value}",
        "SkuMeter": line.kind.value,
        "SkuPriceDetails": _priced(line.flavour, line.kind, issuer.memory_gib.get(line.flavour)),
        "SkuPriceId": line.rate_id,
        "Tags": _flat(owner.tags) if owner.tags else None,
        "x_AttemptNumber": str(owner.attempt_number) if owner.attempt_number else None,
        "x_ChargeKind": line.kind.value,
        "x_GpuCount": str(owner.gpus) if owner.gpus else None,
        "x_GpuFlavor": line.flavour,
        "x_GpuSeconds": str(line.gpu_seconds),
        "x_JobId": owner.job_id or None,
        "x_QueueSeconds": None if owner.queued_s is None else str(owner.queued_s),
        "x_UserPseudonym": owner.pseudonym or None,
    }
    if line.kind is ChargeKind.RESERVED_IDLE:
        row |= {
            "CapacityReservationId": line.holder,
            "CapacityReservationStatus": "Unused",
            "ResourceId": line.holder,
            "ResourceType": "GPU Reservation",
        }
    return row if part is None else row | _allocated(line, part)


def entry_row(entry: Entry, owner: Owner, booked: Booked, issuer: Issuer) -> Row:
    """A row for what has no lines: adjustments, credits, rounding, corrections of closed months."""
    side = entry.credit if entry.debit in (RECOVERY, ROUNDING) else entry.debit
    amount = effect(entry, side)
    is_correction = entry.kind is EntryKind.CORRECTION
    seconds = entry.gpu_seconds if entry.debit == side else -entry.gpu_seconds
    # A credit for a month that was stated before corrects it; an adjustment is of its own month.
    is_late = entry.kind is EntryKind.CREDIT and entry.service_period != str(issuer.month)
    corrects = entry.service_period if is_correction or is_late else None
    month = Month.parse(corrects) if corrects else issuer.month
    # A correction is of the category of what it corrects.
    kind = _CORRECTED.get(entry.sku.rpartition(":")[2], entry.kind) if is_correction else entry.kind
    category = _CATEGORIES.get(kind, "Adjustment")
    row = _common(issuer, amount, owner, booked)
    row |= {
        "ChargeCategory": category,
        "ChargeClass": "Correction" if corrects else None,
        "ChargeDescription": entry.reason or _DESCRIPTIONS.get(entry.kind, str(entry.kind)),
        "ChargeFrequency": "One-Time",
        "ChargePeriodEnd": moment(month.end_s),
        "ChargePeriodStart": moment(month.start_s),
        "x_ChargeKind": str(entry.kind),
        "x_CorrectsEntryId": str(booked.corrects) if booked.corrects else None,
        "x_CorrectsPeriod": corrects,
    }
    if category == "Usage":
        price = plain_text(entry.unit_price)
        row |= {
            "ConsumedQuantity": str(seconds),
            "ConsumedUnit": "GPU-Seconds",
            "ContractedUnitPrice": price,
            "ListUnitPrice": price,
            "PricingCategory": "Standard",
            "PricingQuantity": plain_text(gpu_hours(seconds)),
            "PricingUnit": "GPU-Hours",
            "SkuId": entry.sku,
            "SkuMeter": entry.sku.rpartition(":")[2],
            "SkuPriceId": entry.rate_id,
            "x_GpuFlavor": entry.sku.rpartition(":")[0],
            "x_GpuSeconds": str(seconds),
        }
    return row


_CATEGORIES = {EntryKind.CREDIT: "Credit", EntryKind.CORRECTION: "Usage"}
_CORRECTED = {
    str(ChargeKind.COST_RECOVERY): EntryKind.COST_RECOVERY,
    str(ChargeKind.REFUND): EntryKind.CREDIT,
}
_DESCRIPTIONS = {EntryKind.ROUNDING: "Rounding"}


def header(version: str) -> list[str]:
    """The names of a version's columns, in order."""
    return [column.name for column in columns_of(version)]


def cells(row: Row, names: Sequence[str]) -> list[str]:
    """A row as cells in the order of `names`; null is an empty cell."""
    return [row.get(name) or "" for name in names]
