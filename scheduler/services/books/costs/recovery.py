"""At a close: assets are written off, and each pool's cost is held against what was charged."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction

from accounts.models import User
from accounts.services.audit import record
from scheduler.ledger.closing import BookKey, Posting, Tallies, Tally
from scheduler.ledger.costs.assets import day_of
from scheduler.ledger.costs.recovery import Recovery, to_recover
from scheduler.ledger.entries import (
    GIVEN_UP,
    Entry,
    EntryKind,
    asset_account,
    cost_account,
    effect,
    posting,
)
from scheduler.ledger.exact import EXACT, ZERO, plain
from scheduler.ledger.findings import Finding
from scheduler.ledger.periods import Month, PeriodState
from scheduler.ledger.rating import ChargeKind
from scheduler.models import Asset, LedgerEntry, Period, TermsDecision
from scheduler.models import Recovery as Mode
from scheduler.selectors.books.chain import chained
from scheduler.selectors.books.spending import plan_of
from scheduler.selectors.books.terms import terms_of
from scheduler.services.books.posting import period_named, require_bookkeeper
from scheduler.services.errors import Conflict, Invalid

CHARGING = ("showback", "chargeback")


def amortisation(month: Month, where: Posting) -> list[Entry]:
    """What assets have cost up to the month's end and is not booked yet; what was missed too."""
    end = day_of(month.end_s - 1) + timedelta(days=1)
    booked = _booked_amortisation(month)
    return [
        posting(
            Entry(
                batch=where.batch,
                kind=EntryKind.AMORTISATION,
                period=where.period,
                service_period=where.service_period,
                debit=debit,
                credit=asset_account(str(asset.pk)),
                amount=change,
                currency=asset.currency,
                reason=reason,
                created_by=where.created_by,
            )
        )
        for asset, debit, due, reason in _due(end)
        if (change := EXACT.subtract(due, booked.get((str(asset.pk), debit), ZERO)))
    ]


def _due(end: Any) -> Iterator[tuple[Asset, str, Decimal, str]]:
    for asset in Asset.objects.filter(decision=TermsDecision.APPROVED).order_by("pk"):
        plan = plan_of(asset)
        yield asset, cost_account(str(asset.pool_id)), plan.used_by(end), asset.name
        yield asset, GIVEN_UP, plan.given_up_by(end), f"{asset.name}: {asset.retired_reason}"[:255]


def _booked_amortisation(month: Month) -> dict[tuple[str, str], Decimal]:
    found: dict[tuple[str, str], Decimal] = {}
    rows = LedgerEntry.objects.filter(
        kind=EntryKind.AMORTISATION, service_period__name__lte=str(month)
    )
    for row in rows.order_by("number"):
        is_turned = row.debit.startswith("asset:")
        asset, debit = (row.debit, row.credit) if is_turned else (row.credit, row.debit)
        key = (asset.partition(":")[2], debit)
        amount = EXACT.minus(row.amount) if is_turned else row.amount
        found[key] = EXACT.add(found.get(key, ZERO), amount)
    return found


def pool_costs(month: Month, period: Period) -> dict[str, Decimal]:
    """What each pool has cost in a month: booked, and for an open month what its close will add."""
    entries = [
        chained.as_entry(row, "", "")
        for row in LedgerEntry.objects.filter(
            service_period=period, kind__in=(EntryKind.AMORTISATION, EntryKind.COST)
        )
    ]
    if period.state != PeriodState.CLOSED:
        entries += amortisation(month, Posting("", period.name, period.name, ""))
    found: dict[str, Decimal] = {}
    for entry in entries:
        for account in {entry.debit, entry.credit}:
            if account.startswith("cost:") and account != GIVEN_UP:
                pool = account.partition(":")[2]
                found[pool] = EXACT.add(found.get(pool, ZERO), effect(entry, account))
    return found


def recover(
    month: Month, period: Period, tallies: Tallies
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Hold cost against charges, pool by pool; by cost, what is missing joins the tallies."""
    costs, terms = pool_costs(month, period), terms_of(month)
    notes, findings = [], []
    for pool in sorted({*costs, *tallies.charged}, key=int):
        known = terms.get(int(pool))
        state = Recovery(
            pool=pool,
            cost=costs.get(pool, ZERO),
            charged=tallies.charged.get(pool, ZERO),
            run_seconds=tallies.run_seconds.get(pool, {}),
            by_cost=known is not None and known.recovery == Mode.COST,
        )
        parts, remarks = to_recover(state)
        findings += remarks
        for account, amount in parts.items():
            tallies.by_key[BookKey(account, f"{pool}:{ChargeKind.COST_RECOVERY}", "")] = Tally(
                ZERO, amount=amount
            )
        notes.append(_note(state))
    return notes, findings


def _note(state: Recovery) -> dict[str, Any]:
    rate, percent = state.effective_rate, state.percent
    return {
        "pool": state.pool,
        "mode": str(Mode.COST if state.by_cost else Mode.RATES),
        "cost": plain(state.cost),
        "charged": plain(state.charged),
        "variance": plain(state.variance),
        "percent": None if percent is None else str(percent),
        "run_seconds": sum(state.run_seconds.values()),
        "effective_rate": None if rate is None else str(rate),
    }


@transaction.atomic
def set_charging(*, actor: User, period: str, charging: str) -> Period:
    """Showback (statements inform) or chargeback (they are issued), for a whole open month."""
    require_bookkeeper(actor)
    if charging not in CHARGING:
        raise Invalid(f"Use one of {', '.join(CHARGING)}.", field="charging")
    try:
        month = Month.parse(period)
    except ValueError as error:
        raise Invalid(str(error), field="period") from None
    row = Period.objects.select_for_update().get(pk=period_named(str(month)).pk)
    if row.version:
        raise Conflict(f"{row.name} was closed as {row.charging}; that stays so.")
    before = {"charging": row.charging}
    row.charging = charging
    row.save(update_fields=["charging"])
    record(actor, "period.set_charging", row, before=before, after={"charging": charging})
    return row
