"""Double entry: every amount is owed by one account to another, and every entry seals the last.

An entry's hash is SHA-256 over the hash before it and the entry as canonical JSON (keys sorted, no
spaces, amounts as text of fifteen places). Whoever changes a stored entry changes its hash and
breaks the chain there; `verify` names the first entry that is broken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from enum import StrEnum

from scheduler.ledger.exact import EXACT, ZERO, plain

GENESIS = "0" * 64
# What is owed for use is owed to this account.
RECOVERY = "recovery"
PLATFORM = "platform"
ROUNDING = "rounding"
# What pools cost is owed to these; none of it is on a statement.
EXPENSE = "expense"
GIVEN_UP = "cost:platform"


def cost_account(pool: str) -> str:
    """The account of what a pool costs."""
    return f"cost:{pool}"


def asset_account(asset: str) -> str:
    """The account of what is left of an asset."""
    return f"asset:{asset}"


def project_account(team: str, project: str) -> str:
    """The account of a project; both are ids, so that renaming changes nothing."""
    return f"team:{team}/project:{project}"


def team_account(team: str) -> str:
    """The account of a team itself: what none of its projects caused alone."""
    return f"team:{team}"


def team_of(account: str) -> str:
    """The billed account an account belongs to: its team, or itself."""
    return account.partition("/")[0]


class EntryKind(StrEnum):
    """What an entry is for."""

    USAGE = "usage"
    IDLE_SHARE = "idle_share"
    PLATFORM_SHARE = "platform_share"
    ADJUSTMENT = "adjustment"
    CORRECTION = "correction"
    CREDIT = "credit"
    ROUNDING = "rounding"
    AMORTISATION = "amortisation"
    COST = "cost"
    COST_RECOVERY = "cost_recovery"


# What things have cost the cluster itself; no team owes it by this entry.
INTERNAL = frozenset({EntryKind.AMORTISATION, EntryKind.COST})


@dataclass(frozen=True, slots=True)
class Entry:
    """One posting. `amount` is never negative: what goes back is owed the other way round.

    `period` is where it is booked, `service_period` what it is for (`2026-11`); they differ in
    corrections. `gpu_seconds` carry the amount's sign of effect on the debited account.
    `lines_digest` seals the usage lines it sums.
    """

    batch: str
    kind: EntryKind
    period: str
    service_period: str
    debit: str
    credit: str
    amount: Decimal
    currency: str
    sku: str = ""
    rate_id: str = ""
    unit_price: Decimal = ZERO
    gpu_seconds: int = 0
    lines: int = 0
    lines_digest: str = ""
    reason: str = ""
    created_by: str = ""
    number: int = 0


def posting(entry: Entry) -> Entry:
    """The entry with its accounts turned where its amount is negative."""
    if entry.amount >= 0:
        return entry
    return replace(
        entry,
        debit=entry.credit,
        credit=entry.debit,
        amount=EXACT.minus(entry.amount),
        gpu_seconds=-entry.gpu_seconds,
    )


def canonical(entry: Entry) -> bytes:
    """The one way an entry is written for its hash; ASCII JSON."""
    document = asdict(entry)
    document["amount"] = plain(entry.amount)
    document["unit_price"] = plain(entry.unit_price)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def hash_of(entry: Entry, previous: str) -> str:
    """SHA-256 of the previous hash and the entry, as hexadecimal digits."""
    return hashlib.sha256(previous.encode() + b"\n" + canonical(entry)).hexdigest()


@dataclass(frozen=True, slots=True)
class Sealed:
    """An entry in its place in the chain."""

    entry: Entry
    previous: str
    hash: str


def seal(
    entries: Iterable[Entry], *, head: str = GENESIS, first_number: int = 1
) -> Iterator[Sealed]:
    """Number entries and chain them behind `head`."""
    for number, entry in enumerate(entries, first_number):
        numbered = replace(entry, number=number)
        sealed = Sealed(numbered, head, hash_of(numbered, head))
        yield sealed
        head = sealed.hash


@dataclass(frozen=True, slots=True)
class Break:
    """Where a chain is broken first, and in which way."""

    number: int
    words: str


def verify(chain: Iterable[Sealed], *, head: str | None = None) -> tuple[int, str, Break | None]:
    """Walk a chain: how many entries hold, the last good hash, and the first break if any.

    With `head` the chain must end there: a cut tail is found too.
    """
    previous, count = GENESIS, 0
    for sealed in chain:
        number = count + 1
        if sealed.entry.number != number:
            return count, previous, Break(number, f"entry {number} is missing")
        if sealed.previous != previous:
            return count, previous, Break(number, f"entry {number} does not follow the one before")
        if hash_of(sealed.entry, previous) != sealed.hash:
            return count, previous, Break(number, f"entry {number} was changed after it was posted")
        previous, count = sealed.hash, number
    if head is not None and head != previous:
        return count, previous, Break(count + 1, f"entries after number {count} are missing")
    return count, previous, None


def effect(entry: Entry, account: str) -> Decimal:
    """What the entry adds to what an account owes."""
    owed = entry.amount if entry.debit == account else ZERO
    return EXACT.subtract(owed, entry.amount) if entry.credit == account else owed


def balances(entries: Iterable[Entry]) -> dict[tuple[str, str], Decimal]:
    """What each account owes, by (currency, account); per currency they add up to 0."""
    result: dict[tuple[str, str], Decimal] = {}
    for entry in entries:
        for account, amount in (
            (entry.debit, entry.amount),
            (entry.credit, EXACT.minus(entry.amount)),
        ):
            key = (entry.currency, account)
            result[key] = EXACT.add(result.get(key, ZERO), amount)
    return result


def is_balanced(entries: Iterable[Entry]) -> bool:
    """Whether debits equal credits, per batch, period and currency."""
    sums: dict[tuple[str, str, str], Decimal] = {}
    for entry in entries:
        for (_, _), amount in balances([entry]).items():
            key = (entry.batch, entry.period, entry.currency)
            sums[key] = EXACT.add(sums.get(key, ZERO), amount)
    return not any(sums.values())
