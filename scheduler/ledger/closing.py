"""A month's lines to entries.

One way to post for every occasion: what the books should hold for a month is computed anew, what
they hold already is taken off, and the difference is posted. At the first close that is everything;
at a repeated close nothing; after a later fact or a restated rate it is the correction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import Any

from scheduler.ledger.costs.spare import SharePolicy, Spare, Spares, share_lines
from scheduler.ledger.currencies import exponent_of
from scheduler.ledger.entries import PLATFORM, RECOVERY, Entry, EntryKind, posting
from scheduler.ledger.exact import EXACT, ZERO, plain
from scheduler.ledger.findings import Finding, Trouble
from scheduler.ledger.periods import differences
from scheduler.ledger.rating import ChargeKind, Held, PriceList, UsageLine, rate
from scheduler.ledger.segments import ALLOCATED, Bucket
from scheduler.ledger.shares import UNASSIGNED, IdlePolicy

_ENTRY_KINDS = {
    ChargeKind.IDLE_SHARE: EntryKind.IDLE_SHARE,
    ChargeKind.PLATFORM_SHARE: EntryKind.PLATFORM_SHARE,
    ChargeKind.COST_RECOVERY: EntryKind.COST_RECOVERY,
    ChargeKind.REFUND: EntryKind.CREDIT,
}


def payer(
    account: str | None, bucket: Bucket, *, is_billable: bool, pays_unreachable: bool = False
) -> str | None:
    """Who pays for a held second: the platform for what it broke itself, else the project.

    `pays_unreachable`: the project pays for seconds of a silent node, too.
    """
    if bucket is Bucket.UNREACHABLE and not pays_unreachable:
        return PLATFORM
    return PLATFORM if bucket in ALLOCATED and not is_billable else account


@dataclass(frozen=True, slots=True, order=True)
class BookKey:
    """What one entry sums: an account, a SKU (`flavour:kind`) and a rate."""

    account: str
    sku: str
    rate_id: str


@dataclass(slots=True)
class Tally:
    """The sums of a key's lines; `digest` seals them in the order they came."""

    unit_price: Decimal
    gpu_seconds: int = 0
    amount: Decimal = ZERO
    lines: int = 0
    digest: Any = field(default_factory=hashlib.sha256)


def sealed_text(line: UsageLine) -> bytes:
    """A line as its entry's digest sees it."""
    parts = (
        line.holder,
        str(line.day_s),
        line.account,
        line.pool,
        line.flavour,
        line.kind.value,
        line.rate_id,
        plain(line.unit_price),
        str(line.gpu_seconds),
        plain(line.amount),
    )
    return "\x1f".join(parts).encode() + b"\n"


class Tallies:
    """Adds lines up by what an entry sums; memory grows with keys, not with lines.

    `borne`: what attempts held at the platform's cost and its policy shared out.
    """

    def __init__(self, currency: str) -> None:
        exponent_of(currency)
        self.currency = currency
        self.by_key: dict[BookKey, Tally] = {}
        self.run_seconds: dict[str, dict[str, int]] = {}
        self.charged: dict[str, Decimal] = {}
        self.borne: list[Spare] = []

    def add(self, line: UsageLine) -> Finding | None:
        """Count a line; a finding where it is in another currency than the books."""
        if line.currency != self.currency:
            return Finding(
                Trouble.FOREIGN_CURRENCY,
                f"rate {line.rate_id}",
                f"is in {line.currency}, the books are in {self.currency}; set a rate in "
                f"{self.currency}",
            )
        key = BookKey(line.account, f"{line.flavour}:{line.kind}", line.rate_id)
        tally = self.by_key.get(key)
        if tally is None:
            tally = self.by_key[key] = Tally(line.unit_price)
        tally.gpu_seconds += line.gpu_seconds
        tally.amount = EXACT.add(tally.amount, line.amount)
        tally.lines += 1
        tally.digest.update(sealed_text(line))
        if line.account in (PLATFORM, UNASSIGNED):
            return None
        self.charged[line.pool] = EXACT.add(self.charged.get(line.pool, ZERO), line.amount)
        if line.kind in (ChargeKind.RUN, ChargeKind.RUN_BORROWED):
            used = self.run_seconds.setdefault(line.pool, {})
            used[line.account] = used.get(line.account, 0) + line.gpu_seconds
        return None


@dataclass(frozen=True, slots=True)
class Window:
    """What is rated: seconds of a month, by which prices and policies, in which currency."""

    start_s: int
    end_s: int
    currency: str
    prices: PriceList
    policies: Mapping[str, SharePolicy] = field(default_factory=dict)


def tally(
    held: Iterable[Held],
    spare: Iterable[Spare],
    window: Window,
    keep: Callable[[UsageLine], None] = lambda line: None,
) -> tuple[Tallies, list[Finding]]:
    """Rate what was held (grouped by holder), share what was spare; each line goes to `keep` too.

    What the platform pays for is shared with its drained and broken time where the pool's policy
    says so, and else is rated as the platform's own. Memory grows with keys and
    findings, not with segments or lines.
    """
    tallies = Tallies(window.currency)
    findings: set[Finding] = set()
    borne = Spares(window.start_s, window.end_s)
    every = _with_borne(spare, borne, tallies)
    shared = share_lines(every, window.policies, tallies.run_seconds, window.prices)
    charged = _charged(held, window.policies, borne)
    for found in chain(rate(charged, window.prices, window.start_s, window.end_s), shared):
        problem = found if isinstance(found, Finding) else tallies.add(found)
        if problem is not None:
            findings.add(problem)
        elif isinstance(found, UsageLine):
            keep(found)
    return tallies, sorted(findings)


def _charged(
    held: Iterable[Held], policies: Mapping[str, SharePolicy], borne: Spares
) -> Iterator[Held]:
    """What is charged directly; the rest is counted in `borne` on the way."""
    sharing = {p for p, policy in policies.items() if policy.platform is not IdlePolicy.NONE}
    for one in held:
        if one.account == PLATFORM and one.pool in sharing:
            borne.bear(one)
        else:
            yield one


def _with_borne(spare: Iterable[Spare], borne: Spares, tallies: Tallies) -> Iterator[Spare]:
    """Read once everything held has gone by: only then is it known what was borne."""
    tallies.borne = borne.found()
    yield from spare
    yield from tallies.borne


@dataclass(frozen=True, slots=True)
class Posting:
    """Where and by whom differences are posted. `period` equals `service_period` at a close."""

    batch: str
    period: str
    service_period: str
    created_by: str
    reason: str = ""
    is_correction: bool = False


def entries_of(
    tallies: Tallies, booked: Mapping[BookKey, tuple[int, Decimal, Decimal]], where: Posting
) -> list[Entry]:
    """The entries that make the books hold exactly these tallies, in a fixed order.

    `booked`: seconds, amount and unit price per key that are there already. A first close (nothing
    booked) gives usage and share entries with their lines' digests, anything else corrections.
    """
    changes = differences(
        {key: (seconds, amount) for key, (seconds, amount, _) in booked.items()},
        {key: (tally.gpu_seconds, tally.amount) for key, tally in tallies.by_key.items()},
    )
    entries = []
    for key in sorted(changes):
        seconds, amount = changes[key]
        tally = tallies.by_key.get(key)
        is_whole = tally is not None and key not in booked and not where.is_correction
        kind = ChargeKind(key.sku.rpartition(":")[2])
        entries.append(
            posting(
                Entry(
                    batch=where.batch,
                    kind=_ENTRY_KINDS.get(kind, EntryKind.USAGE)
                    if is_whole
                    else EntryKind.CORRECTION,
                    period=where.period,
                    service_period=where.service_period,
                    debit=key.account,
                    credit=RECOVERY,
                    amount=amount,
                    currency=tallies.currency,
                    sku=key.sku,
                    rate_id=key.rate_id,
                    unit_price=tally.unit_price if tally else booked[key][2],
                    gpu_seconds=seconds,
                    lines=tally.lines if tally and is_whole else 0,
                    lines_digest=tally.digest.hexdigest() if tally and is_whole else "",
                    reason=where.reason,
                    created_by=where.created_by,
                )
            )
        )
    return entries
