"""Which seconds a report is of: a month, or the days from one until another, in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from accounts.errors import Invalid
from scheduler.ledger.periods import Month
from scheduler.models import Period
from scheduler.selectors.books.frame import Ask
from scheduler.selectors.books.months import Books

# Reports by the day have a row for each of them in memory.
MOST_DAYS = 366
SPAN = frozenset({"from", "to"})


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open. `months` are those its days lie in; `is_month`: it is just the one asked for."""

    start_s: int
    end_s: int
    months: tuple[str, ...]
    is_month: bool

    @property
    def window(self) -> tuple[datetime, datetime]:
        """As moments."""
        return datetime.fromtimestamp(self.start_s, UTC), datetime.fromtimestamp(self.end_s, UTC)


def end_of(books: Books, ask: Ask) -> int:
    """Where the month's seconds end: now, while it lasts; a closed month is over."""
    if books.version or not ask.now_s:
        return books.month.end_s
    return min(books.month.end_s, ask.now_s)


def span_of(books: Books, ask: Ask) -> Span:
    """What is asked for, and no more of it than has passed.

    One day alone reaches to the edge of its month. Raises Invalid.
    """
    month = books.month
    if not ask.has_days:
        return Span(month.start_s, end_of(books, ask), (str(month),), True)
    first = _day(ask.since, "from") if ask.since else _date_of(month.start_s)
    last = _day(ask.until, "to") if ask.until else _date_of(month.end_s - 1)
    if last < first:
        raise Invalid(f"It lies before {first}, the first day.", field="to")
    if (last - first).days >= MOST_DAYS:
        raise Invalid(f"Ask for {MOST_DAYS} days at most.", field="from")
    start_s, end_s = _second_of(first), _second_of(last + timedelta(days=1))
    is_over = bool(books.version) and end_s <= month.end_s
    if ask.now_s and not is_over:
        end_s = max(start_s, min(end_s, ask.now_s))
    months, each = [], Month.of(start_s)
    while each.start_s <= _second_of(last):
        months.append(str(each))
        each = Month.of(each.end_s)
    return Span(start_s, end_s, tuple(months), (start_s, end_s) == (month.start_s, month.end_s))


def standing_of(books: Books, span: Span) -> dict[str, Any]:
    """Version and state of the figures, as a sheet has them; those of one month only."""
    if len(span.months) > 1:
        return {"version": 0, "state": "several months"}
    return {"version": books.version, "state": books.state}


def remarks_of(books: Books, ask: Ask) -> tuple[str, ...]:
    """What a reader of rated usage has to know before the figures."""
    if not ask.has_days or len(span_of(books, ask).months) == 1:
        return books.remarks
    return (
        "Usage is rated when a month is closed: days of months that are still open are not in "
        "here. What spans two months has a row in each.",
    )


def closed_of(books: Books, span: Span) -> frozenset[str]:
    """Which of the months were closed; one statement for several."""
    if len(span.months) == 1:
        return frozenset(span.months if books.version else ())
    closed = Period.objects.filter(name__in=span.months, version__gt=0)
    return frozenset(closed.values_list("name", flat=True))


def _day(text: str, name: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Invalid("Write a day such as 2026-11-03.", field=name) from None
    if not 2000 <= day.year <= 2999:
        raise Invalid("Choose a year from 2000 to 2999.", field=name)
    return day


def _date_of(second: int) -> date:
    return datetime.fromtimestamp(second, UTC).date()


def _second_of(day: date) -> int:
    return int(datetime.combine(day, time(), UTC).timestamp())
