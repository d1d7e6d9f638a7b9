"""Entries to statements: rounded once, to the smallest coin, so that everything still adds up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from scheduler.ledger.closing import Posting
from scheduler.ledger.currencies import exponent_of, from_minor, minor_units
from scheduler.ledger.entries import (
    INTERNAL,
    RECOVERY,
    ROUNDING,
    Entry,
    EntryKind,
    effect,
    posting,
    team_of,
)
from scheduler.ledger.exact import EXACT, total
from scheduler.ledger.shares import spread


@dataclass(frozen=True, slots=True)
class Bill:
    """One billed account's month: `units` of the smallest coin, and by entry number.

    `exact` is the sum before rounding, `rounding` = units − exact, less than one unit either way.
    """

    account: str
    exact: Decimal
    units: int
    rounding: Decimal
    parts: Mapping[int, int]


def billed(entry: Entry) -> str:
    """The account a statement is made out for: the side that is not the cluster's own."""
    return team_of(entry.credit if entry.debit in (RECOVERY, ROUNDING) else entry.debit)


def draw_bills(entries: Iterable[Entry], currency: str) -> tuple[int, list[Bill]]:
    """Control total in smallest units, and bills that add up to it; entries are numbered.

    The control total is the exact sum rounded half to even; it is spread over the bills, and each
    bill over its entries, by largest remainder. What the cluster owes itself is on no bill.
    """
    exponent = exponent_of(currency)
    by_account: dict[str, dict[str, Decimal]] = {}
    for entry in entries:
        if entry.kind in INTERNAL:
            continue
        account = billed(entry)
        side = entry.credit if entry.debit in (RECOVERY, ROUNDING) else entry.debit
        by_account.setdefault(account, {})[f"{entry.number:012d}"] = effect(entry, side)
    sums = {account: total(parts.values()) for account, parts in by_account.items()}
    control = minor_units(total(sums.values()), currency)
    bills = []
    for account, units in sorted(spread(control, sums, exponent).items()):
        parts = spread(units, by_account[account], exponent)
        bills.append(
            Bill(
                account=account,
                exact=sums[account],
                units=units,
                rounding=EXACT.subtract(from_minor(units, currency), sums[account]),
                parts={int(number): part for number, part in parts.items()},
            )
        )
    return control, bills


def rounding_entries(bills: Iterable[Bill], currency: str, where: Posting) -> list[Entry]:
    """The difference between each bill and its exact sum, in the open."""
    return [
        posting(
            Entry(
                batch=where.batch,
                kind=EntryKind.ROUNDING,
                period=where.period,
                service_period=where.service_period,
                debit=bill.account,
                credit=ROUNDING,
                amount=bill.rounding,
                currency=currency,
                reason="difference between the statement and its exact sum",
                created_by=where.created_by,
            )
        )
        for bill in bills
        if bill.rounding
    ]
