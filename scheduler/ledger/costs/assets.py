"""What was bought, written off in a straight line by the day; the last day takes what is left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, Context, Decimal

from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.periods import LAST_YEAR

# A day's part is rounded down to prices' places; what that leaves over falls to the last day.
_STEP = Decimal("0.000001")
_DOWN = Context(prec=60, rounding=ROUND_DOWN)


@dataclass(frozen=True, slots=True)
class Plan:
    """A purchase as it is written off: `cost` less `residual` from `since` on, over `months`.

    `until` is the first day it is out of service, if it was retired early.
    """

    cost: Decimal
    residual: Decimal
    since: date
    months: int
    until: date | None = None

    @property
    def end(self) -> date:
        """The first day after its planned life; the 31st falls to the last day of a short month.

        At most the last day there is: one asset with too long a life would stop every close.
        """
        count = self.since.year * 12 + self.since.month - 1 + self.months
        year, month = divmod(count, 12)
        if year > LAST_YEAR:
            return date.max
        first = date(year, month + 1, 1)
        following = date(year + month // 11, (month + 1) % 12 + 1, 1)
        return min(first + timedelta(days=self.since.day - 1), following - timedelta(days=1))

    @property
    def value(self) -> Decimal:
        """What is written off in all."""
        return EXACT.subtract(self.cost, self.residual)

    @property
    def a_day(self) -> Decimal:
        """The part of every day but the last."""
        days = (self.end - self.since).days
        return _DOWN.divide(self.value, Decimal(days)).quantize(_STEP, context=_DOWN)

    def used_by(self, day: date) -> Decimal:
        """What its use has cost before this day, in all."""
        last = day if self.until is None else min(day, self.until)
        if last >= self.end:
            return self.value
        days = max(0, (last - self.since).days)
        return EXACT.multiply(self.a_day, Decimal(days))

    def given_up_by(self, day: date) -> Decimal:
        """What was left when it was retired early, from that day on."""
        if self.until is None or day < self.until or self.until >= self.end:
            return ZERO
        return EXACT.subtract(self.value, self.used_by(self.until))


def day_of(at_s: int) -> date:
    """The UTC day a second lies in."""
    return datetime.fromtimestamp(at_s, UTC).date()
