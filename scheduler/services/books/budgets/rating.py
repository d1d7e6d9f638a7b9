"""What months that are not closed come to so far, by account and day: what no entry says yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from scheduler.ledger.budgets.actuals import Actual, Charge, Claim, Of, actuals
from scheduler.ledger.closing import Window
from scheduler.ledger.entries import PLATFORM
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import DAY_S, ChargeKind, Held, UsageLine, cut, kind_of
from scheduler.models import Period
from scheduler.selectors.books.slugs.actuals import SHARES
from scheduler.services.books.counting import rate_so_far


@dataclass(slots=True)
class SoFar:
    """A month up to a second: sums of lines, with those of `apart` attempts by attempt.

    What began after attempt `newest` is left out: it may have begun while the run did.

    `unpriced`: seconds without a price by account, flavour, kind and UTC day (its first second).
    """

    month: Month
    apart: Collection[str]
    newest: int
    days: dict[tuple[str, int], Actual] = field(default_factory=dict)
    running: dict[tuple[str, str, int], Actual] = field(default_factory=dict)
    refunds: dict[str, Actual] = field(default_factory=dict)
    unpriced: dict[tuple[str, str, str, int], int] = field(default_factory=dict)

    def keep(self, line: UsageLine) -> None:
        """Take one line."""
        if line.holder.isdecimal() and int(line.holder) > self.newest:
            return
        seconds = 0 if line.kind in SHARES else line.gpu_seconds
        actual = Actual(seconds, line.amount)
        if line.holder in self.apart:
            key = (line.holder, line.account, line.day_s)
            self.running[key] = self.running.get(key, Actual()).plus(actual)
        else:
            day = (line.account, line.day_s)
            self.days[day] = self.days.get(day, Actual()).plus(actual)

    def look(self, window: Window, held: Iterable[Held]) -> Iterator[Held]:
        """Note what has no price while it goes by: before a first price, or after one ended."""
        for one in held:
            kind = kind_of(one.bucket, one.tier)
            begin, end = max(one.start_s, window.start_s), min(one.end_s, window.end_s)
            if kind is not None and begin < end and one.account not in (None, PLATFORM):
                self._look_at(window, one, kind, begin, end)
            yield one

    def _look_at(self, window: Window, one: Held, kind: ChargeKind, begin: int, end: int) -> None:
        account = str(one.account)
        changes = window.prices.changes(one.flavour, kind, begin, end, account)
        for start, until in cut(begin, end, changes):
            if window.prices.at(one.flavour, kind, start, account) is None:
                key = (account, one.flavour, str(kind), start - start % DAY_S)
                self.unpriced[key] = self.unpriced.get(key, 0) + until - start

    def actuals(
        self, claims: Mapping[int, Claim], held_open: Mapping[int, Collection[str]], until_s: int
    ) -> dict[int, Actual]:
        """By budget, without what attempts used whose holds of it are still open."""
        charges = [
            Charge(account, Of.DAY, self.month, actual.gpu_seconds, actual.amount, day_s)
            for (account, day_s), actual in self.days.items()
        ]
        # What goes back for a preemption counts on the last day that was counted.
        last = min(until_s, self.month.end_s) - 1
        charges += [
            Charge(account, Of.DAY, self.month, 0, actual.amount, last - last % DAY_S)
            for account, actual in self.refunds.items()
        ]
        found = actuals(claims, charges)
        for key, claim in claims.items():
            open_ = held_open.get(key, ())
            for (holder, account, day_s), actual in self.running.items():
                if holder not in open_ and claim.is_for(account) and claim.has_day(day_s):
                    found[key] = found[key].plus(actual)
        return found

    def unpriced_of(self, claim: Claim) -> list[list[Any]]:
        """`[flavour, kind, first day, gpu_seconds]` of a budget's accounts."""
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for (account, flavour, kind, day_s), seconds in self.unpriced.items():
            if claim.is_for(account) and claim.has_day(day_s):
                first, so_far = sums.get((flavour, kind), (day_s, 0))
                sums[flavour, kind] = (min(first, day_s), so_far + seconds)
        return [
            [flavour, kind, f"{datetime.fromtimestamp(first, UTC):%Y-%m-%d}", seconds]
            for (flavour, kind), (first, seconds) in sorted(sums.items())
        ]


def count_so_far(
    month: Month, period: Period, until_s: int, *, apart: Collection[str], newest: int
) -> SoFar:
    """Rate a month up to a second; see `SoFar`."""
    found = SoFar(month, apart, newest)
    tallies = rate_so_far(month, period, until_s=until_s, keep=found.keep, look=found.look)
    for key, tally in tallies.by_key.items():
        if key.sku.endswith(f":{ChargeKind.REFUND}"):
            known = found.refunds.get(key.account, Actual())
            found.refunds[key.account] = known.plus(Actual(0, tally.amount))
    return found
