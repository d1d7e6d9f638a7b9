"""What a list is narrowed to beside its filter: the period of a report, the page cursor."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.http import QueryDict

MAX_PERIOD_DAYS = 3660


def unknown_parameters(given: Iterable[str], known: Iterable[str]) -> list[str]:
    """The parameters of a URL that a page does not know; shown as a notice, never an error."""
    return sorted({name[:40] for name in given} - set(known))


def write_cursor(pk: int) -> str:
    """An opaque mark of a place in a list that is ordered by falling id."""
    return base64.urlsafe_b64encode(f"before:{pk}".encode()).decode().rstrip("=")


def read_cursor(text: str) -> int | None:
    """The id in a mark; None for no mark. Raises ValueError for one that we did not write."""
    if not text:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not a place in this list") from None
    match = re.fullmatch(rb"before:([1-9][0-9]{0,18})", raw)
    if not match or int(match[1]) >= 2**63:
        raise ValueError("not a place in this list")
    return int(match[1])


@dataclass(slots=True)
class Period:
    """Whole days in UTC, both ends included, as people say it; `start`/`end` are half open."""

    first: date
    last: date
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def start(self) -> datetime:
        return datetime.combine(self.first, time.min, UTC)

    @property
    def end(self) -> datetime:
        return datetime.combine(self.last + timedelta(days=1), time.min, UTC)


def parse_period(first: str, last: str, *, today: date) -> Period:
    """From and to as ISO days; by default this month. Wrong ones are named and not used."""
    period = Period(today.replace(day=1), today)
    for name, text in (("from", first), ("to", last)):
        if not text:
            continue
        try:
            day = date.fromisoformat(text)
            if not 2000 <= day.year <= 2999 or len(text) != 10:
                raise ValueError
        except ValueError:
            period.problems[name] = f"{text[:20]!r} is not a day; write it like 2026-11-20."
            continue
        if name == "from":
            period.first = day
        else:
            period.last = day
    if not period.problems and period.last < period.first:
        period.problems["to"] = "The last day is before the first; swap them."
    elif (period.last - period.first).days > MAX_PERIOD_DAYS:
        period.problems["from"] = "A report covers at most ten years; choose a later first day."
    if period.problems:
        return Period(today.replace(day=1), today, period.problems)
    return period


class WatchedQuery(QueryDict):
    """A query string that remembers what was read of it: what nobody read, the page does not know.

    Going through all of it reads nothing; `request.GET` of every page is one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.read: set[str] = set()
        self._one_of: set[str] = set()
        self._all_of: set[str] = set()
        self._noted: list[str] = []
        super().__init__(*args, **kwargs)
        self.read.clear()  # filling it looked every key up

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        self._one_of.add(key)
        return super().__getitem__(key)

    def getlist(self, key: str, default: Any = None) -> Any:
        """All values of a parameter, which is known by that."""
        self.read.add(key)
        self._all_of.add(key)
        return super().getlist(key, default)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def note_odd(self, name: str, remedy: str = "") -> None:
        """This value makes no sense; every page says so, and is shown as if it were not there."""
        value = str(self.get(name, ""))[:40]
        words = f"{name}: {value!r} is not known here and not used"
        self._noted.append(f"{words}; {remedy}." if remedy else f"{words}.")

    @property
    def odd(self) -> list[str]:
        """Sentences about values that are not used: odd ones, and all but the last where a page
        takes one and several were given."""
        several = (
            (name, len(super(WatchedQuery, self).getlist(name)))
            for name in sorted(self._one_of - self._all_of)
        )
        return self._noted + [
            f"{name[:40]}: is given {count} times; the last one is used."
            for name, count in several
            if count > 1
        ]

    def never_read(self) -> list[str]:
        """The parameters that nobody asked for."""
        return unknown_parameters(self.keys(), self.read)
