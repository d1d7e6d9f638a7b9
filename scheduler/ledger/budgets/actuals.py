"""What a budget has used, as the ledger says it: whose charges are its own, and of which days.

Charges lie on whole UTC days, as lines do. A day belongs to the budget that holds its last second,
so that of budgets that follow each other each day has one. What has no day, such as a correction,
lies on the last day of the month it is booked in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto

from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import DAY_S


@dataclass(frozen=True, slots=True)
class Claim:
    """Whose charges count for a budget, from `start_s` until right before `end_s`.

    `project`: an id; else `teams`: ids; neither: all teams. What the platform or nobody pays for
    counts for none.
    """

    start_s: int
    end_s: int
    project: str = ""
    teams: frozenset[str] | None = None

    def is_for(self, account: str) -> bool:
        """Whether an account of the ledger lies in it."""
        if not account.startswith("team:"):
            return False
        team, _, project = account.removeprefix("team:").partition("/")
        if self.project:
            return project == f"project:{self.project}"
        return self.teams is None or team in self.teams

    def has_day(self, day_s: int) -> bool:
        """Whether a UTC day, by its first second, belongs to it."""
        return self.start_s <= day_s + DAY_S - 1 < self.end_s

    def has_month(self, month: Month) -> bool | None:
        """Whether all its days belong to it, or none (False), or some (None)."""
        first, last = self.has_day(month.start_s), self.has_day(month.end_s - DAY_S)
        if first and last:
            return True
        is_apart = month.end_s <= self.start_s or self.end_s <= month.start_s
        return False if is_apart else None

    def cut_months(self) -> set[Month]:
        """The months of which some days belong to it and some do not; two at most."""
        edges = {Month.of(self.start_s), Month.of(self.end_s - 1)}
        return {month for month in edges if self.has_month(month) is None}


class Of(Enum):
    """What a charge lies on.

    `LINES` of a day and their sum of the MONTH say the same: the sum counts where a whole month
    belongs to a budget, the lines where some of its days do. A DAY's and the month's END's count
    where the day does.
    """

    MONTH = auto()
    LINES = auto()
    DAY = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Charge:
    """GPU-seconds that were charged directly, and an amount, on an account of the ledger.

    `day_s`: of LINES and DAY the first second of the UTC day.
    """

    account: str
    of: Of
    month: Month
    gpu_seconds: int
    amount: Decimal
    day_s: int = 0

    def counts_for(self, claim: Claim) -> bool:
        """Whether the days that it lies on belong to a budget."""
        if self.of is Of.DAY:
            return claim.has_day(self.day_s)
        if self.of is Of.END:
            return claim.has_day(self.month.end_s - DAY_S)
        is_whole = claim.has_month(self.month) is True
        if self.of is Of.MONTH:
            return is_whole
        return not is_whole and claim.has_day(self.day_s)


@dataclass(frozen=True, slots=True)
class Actual:
    """GPU-seconds that were charged directly, and all that was charged, exact."""

    gpu_seconds: int = 0
    amount: Decimal = ZERO

    def plus(self, other: Actual) -> Actual:
        """Their sum."""
        return Actual(self.gpu_seconds + other.gpu_seconds, EXACT.add(self.amount, other.amount))


def actuals(claims: Mapping[int, Claim], charges: Iterable[Charge]) -> dict[int, Actual]:
    """What each claim comes to; those of no charge to nothing."""
    by_account: dict[str, list[Charge]] = {}
    for charge in charges:
        by_account.setdefault(charge.account, []).append(charge)
    found = {}
    for key, claim in claims.items():
        total = Actual()
        for account, own in by_account.items():
            if claim.is_for(account):
                for one in own:
                    if one.counts_for(claim):
                        total = total.plus(Actual(one.gpu_seconds, one.amount))
        found[key] = total
    return found
