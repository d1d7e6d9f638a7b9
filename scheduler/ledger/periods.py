"""Months of the books: which are open, what may be posted where, and what a close must wait for.

open -> soft_closed (late usage still lands, nobody edits) -> closed (numbers are final) -> reopened
by two people -> closed again as the next version. A closed month is never changed: what becomes
known later is a correction in a month that is open.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TypeVar

from scheduler.ledger.entries import EntryKind
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.findings import Finding, Trouble
from scheduler.ledger.rating import DAY_S

Key = TypeVar("Key")
LAST_YEAR = 9998


class PeriodState(StrEnum):
    """Where a month of the books stands."""

    OPEN = "open"
    SOFT_CLOSED = "soft_closed"
    CLOSED = "closed"
    REOPENED = "reopened"


PERIOD_MOVES: Mapping[PeriodState, frozenset[PeriodState]] = {
    PeriodState.OPEN: frozenset({PeriodState.SOFT_CLOSED}),
    PeriodState.SOFT_CLOSED: frozenset({PeriodState.CLOSED}),
    PeriodState.CLOSED: frozenset({PeriodState.REOPENED}),
    PeriodState.REOPENED: frozenset({PeriodState.CLOSED}),
}
_TAKES: Mapping[PeriodState, frozenset[EntryKind]] = {
    PeriodState.OPEN: frozenset(EntryKind) - {EntryKind.ROUNDING},
    PeriodState.SOFT_CLOSED: frozenset(EntryKind) - {EntryKind.ADJUSTMENT, EntryKind.COST},
    PeriodState.CLOSED: frozenset(),
    PeriodState.REOPENED: frozenset(EntryKind),
}


def may_post(state: PeriodState, kind: EntryKind) -> bool:
    """Whether an entry of this kind may be booked in a period of this state."""
    return kind in _TAKES[state]


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month in UTC; local days of 23 or 25 hours do not exist here.

    Books are kept up to 9998, so that every month of theirs has one after it.
    """

    year: int
    month: int

    def __post_init__(self) -> None:
        if not (1970 <= self.year <= LAST_YEAR + 1 and 1 <= self.month <= 12):
            raise ValueError(f"period: {self.year}-{self.month} is no month; write it as 2026-11")

    @classmethod
    def parse(cls, text: str) -> Month:
        """From `2026-11`. Raises ValueError."""
        year, dash, month = text.partition("-")
        is_written = dash and year.isdecimal() and month.isdecimal() and len(month) == 2
        if not is_written or int(year) > LAST_YEAR:
            raise ValueError(f"period: {text!r} is no month; write it as 2026-11")
        return cls(int(year), int(month))

    @classmethod
    def of(cls, at_s: int) -> Month:
        """The month a second lies in."""
        moment = datetime.fromtimestamp(at_s, UTC)
        return cls(moment.year, moment.month)

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}"

    @property
    def start_s(self) -> int:
        """First second."""
        return int(datetime(self.year, self.month, 1, tzinfo=UTC).timestamp())

    @property
    def end_s(self) -> int:
        """First second after it, of the last month of the calendar too, which has none after it."""
        return self.start_s + monthrange(self.year, self.month)[1] * DAY_S

    @property
    def following(self) -> Month:
        """The month after it."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)


@dataclass(frozen=True, slots=True)
class ClosingDays:
    """On which days of the month after, at midnight UTC, a month closes by itself; None: never."""

    soft: int | None
    full: int | None

    def soft_at(self, month: Month) -> datetime | None:
        """When nobody posts by hand in it any more."""
        return _day_after(month, self.soft)

    def close_at(self, month: Month) -> datetime | None:
        """When it is closed, if nothing stands in the way."""
        return _day_after(month, self.full)

    def ahead(self, month: Month, state: PeriodState) -> datetime | None:
        """The same; None for one that is closed, or that people have reopened."""
        is_done = state in (PeriodState.CLOSED, PeriodState.REOPENED)
        return None if is_done else self.close_at(month)


def _day_after(month: Month, day: int | None) -> datetime | None:
    if day is None:
        return None
    return datetime.fromtimestamp(month.end_s, UTC) + timedelta(days=day - 1)


def obstacles(
    month: Month, state: PeriodState, *, now_s: int, earlier_open: Month | None
) -> list[Finding]:
    """What of the calendar speaks against closing a month now."""
    found = []
    if now_s < month.end_s:
        end = datetime.fromtimestamp(month.end_s, UTC)
        found.append(
            Finding(Trouble.NOT_OVER, str(month), f"is not over before {end:%-d %b %Y, %H:%M} UTC")
        )
    if earlier_open is not None and earlier_open < month:
        found.append(
            Finding(Trouble.EARLIER_OPEN, str(earlier_open), "is not closed yet; close it first")
        )
    if PeriodState.CLOSED not in PERIOD_MOVES[state] and state is not PeriodState.OPEN:
        found.append(
            Finding(Trouble.UNDECIDED, str(month), f"is {state}; reopen it to close it anew")
        )
    return found


def differences(
    booked: Mapping[Key, tuple[int, Decimal]], recomputed: Mapping[Key, tuple[int, Decimal]]
) -> dict[Key, tuple[int, Decimal]]:
    """Seconds and amounts to post so that booked + posted = recomputed, key by key; no zeros."""
    nothing = (0, ZERO)
    result = {}
    for key in {**booked, **recomputed}:
        old, new = booked.get(key, nothing), recomputed.get(key, nothing)
        change = (new[0] - old[0], EXACT.subtract(new[1], old[1]))
        if change[0] or change[1]:
            result[key] = change
    return result
