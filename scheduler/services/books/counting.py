"""A month counted anew from its segments: what it owes, what speaks against it, the shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from accounts.models import Rate
from scheduler.ledger.auditing import Audit
from scheduler.ledger.closing import Tallies, Window, tally
from scheduler.ledger.costs.spare import share_notes
from scheduler.ledger.findings import Finding
from scheduler.ledger.periods import Month
from scheduler.models import Period
from scheduler.services.books import reading
from scheduler.services.books.costs.recovery import recover
from scheduler.services.books.costs.refunds import credit_preempted
from scheduler.services.books.guarantees import borrowed_in, guarantees_in
from scheduler.services.books.lines import LineWriter


@dataclass(frozen=True, slots=True)
class Counted:
    """What a month comes to. `lines`: how many were written."""

    audit: Audit
    tallies: Tallies
    findings: list[Finding]
    lines: int
    shares: list[dict[str, Any]] = field(default_factory=list)
    recovery: list[dict[str, Any]] = field(default_factory=list)


def count_month(
    month: Month, period: Period, *, keep_lines: bool = False, also: Rate | None = None
) -> Counted:
    """Count it; lines are stored only if they are to be kept. `also`: a price as if it held."""
    found, spare = reading.audit_month(month)
    given = guarantees_in(month)
    window = Window(
        start_s=month.start_s,
        end_s=month.end_s,
        currency=period.currency,
        prices=reading.price_list(also),
        policies=reading.share_policies(month, given),
    )
    with LineWriter(period, is_on=keep_lines) as writer:
        tiers = borrowed_in(month, given)
        held = reading.held_in(month, tiers)
        held = chain(held, reading.reserved_in(month))
        tallies, findings = tally(held, spare, window, writer.keep)
    notes = share_notes([*spare, *tallies.borne], window.policies, tallies.run_seconds)
    credit_preempted(month, window, tiers, tallies)
    recovery, remarks = recover(month, period, tallies)
    return Counted(
        audit=found,
        tallies=tallies,
        findings=[*found.findings, *findings, *remarks],
        lines=writer.count,
        shares=notes,
        recovery=recovery,
    )
