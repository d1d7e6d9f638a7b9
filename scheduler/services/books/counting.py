"""A month counted anew from its segments: what it owes, what speaks against it, the shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from accounts.models import Rate
from scheduler.ledger.auditing import Audit
from scheduler.ledger.closing import Tallies, Window, tally
from scheduler.ledger.costs.spare import Spare, Spares, share_notes
from scheduler.ledger.findings import Finding
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import Held, UsageLine
from scheduler.ledger.shares import IdlePolicy
from scheduler.models import Period
from scheduler.services.books import reading
from scheduler.services.books.costs.recovery import recover
from scheduler.services.books.costs.refunds import credit_preempted
from scheduler.services.books.guarantees import borrowed_in, guarantees_in
from scheduler.services.books.lines import LineWriter

# A million segments take a minute, so these take about a second: as long as a page may.
AT_ONCE = 20_000


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
    with LineWriter(period, is_on=keep_lines) as writer:
        window, tallies, findings = _rated(month, period, lambda _: spare, writer.keep, also=also)
    notes = share_notes([*spare, *tallies.borne], window.policies, tallies.run_seconds)
    recovery, remarks = recover(month, period, tallies)
    return Counted(
        audit=found,
        tallies=tallies,
        findings=[*found.findings, *findings, *remarks],
        lines=writer.count,
        shares=notes,
        recovery=recovery,
    )


def is_much(months: Iterable[Month]) -> bool:
    """Whether counting them takes longer than a page may; looks at AT_ONCE segments at most."""
    left = AT_ONCE
    for month in months:
        left -= reading.segments_within(month)[: left + 1].count()
        if left < 0:
            return True
    return False


def rate_so_far(
    month: Month,
    period: Period,
    *,
    until_s: int,
    keep: Callable[[UsageLine], None],
    look: Callable[[Window, Iterable[Held]], Iterable[Held]],
) -> Tallies:
    """A month rated up to a second as its close would rate it; stores nothing.

    `look` sees what was held on its way to being rated. What a close adds from the pools' costs is
    known only then and is not in it.
    """

    def spare(window: Window) -> list[Spare]:
        for each in window.policies.values():
            if {each.idle, each.platform} != {IdlePolicy.NONE}:
                return _spare_until(month, window.end_s)
        return []

    return _rated(month, period, spare, keep, until_s=until_s, look=look)[1]


def _spare_until(month: Month, until_s: int) -> list[Spare]:
    """What nobody held from the month's begin until a second in it."""
    spares = Spares(month.start_s, until_s)
    for _ in reading.streams(month, spares):
        pass
    return spares.found()


def _rated(
    month: Month,
    period: Period,
    spare_for: Callable[[Window], Iterable[Spare]],
    keep: Callable[[UsageLine], None],
    *,
    also: Rate | None = None,
    until_s: int | None = None,
    look: Callable[[Window, Iterable[Held]], Iterable[Held]] = lambda _, held: held,
) -> tuple[Window, Tallies, list[Finding]]:
    """What was held, shared out and refunded, by the prices and policies of the month."""
    given = guarantees_in(month)
    window = Window(
        start_s=month.start_s,
        end_s=month.end_s if until_s is None else min(month.end_s, until_s),
        currency=period.currency,
        prices=reading.price_list(also),
        policies=reading.share_policies(month, given),
    )
    spare = spare_for(window)
    tiers = borrowed_in(month, given)
    held = look(window, chain(reading.held_in(month, tiers), reading.reserved_in(month)))
    tallies, findings = tally(held, spare, window, keep)
    credit_preempted(month, window, tiers, tallies)
    return window, tallies, findings
