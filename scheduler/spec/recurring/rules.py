"""How a rule of time is written: cron's five fields with their names, or a word such as @daily."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

MAX_RULE = 120
WORDS: Mapping[str, str] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_DAYS = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}
_MONTHS = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)
}
_SUNDAY_LAST = 7
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, _SUNDAY_LAST, _DAYS),
)
_PART = re.compile(r"(\*|[a-z0-9]+)(?:-([a-z0-9]+))?(?:/([0-9]+))?", re.ASCII)
# Long enough for the 29th of February over a century without one.
_YEARS = 9


@dataclass(frozen=True, slots=True)
class TimeRule:
    """Minutes, hours and days at which it is due, in the time of a place.

    `weekdays` count from Sunday, 0. Where days of the month and of the week are both named, either
    will do, as in cron; a field that begins with `*` names none.
    """

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def falls_on(self, day: date) -> bool:
        """Whether it is due at some time of this day."""
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


@lru_cache(maxsize=256)
def read_time_rule(text: str) -> TimeRule:
    """Raises ValueError with what is wrong and what to write, as the end of a sentence that begins
    with the field's name."""
    tidy = " ".join(text.lower().split())
    if len(tidy) > MAX_RULE:
        raise ValueError(f"is longer than {MAX_RULE} characters; write two schedules")
    if tidy.startswith("@") and tidy not in WORDS:
        raise ValueError(f"knows no word {tidy[:20]}; write one of {', '.join(WORDS)}")
    written = WORDS.get(tidy, tidy).split()
    if len(written) != len(_FIELDS):
        raise ValueError(
            f"has {len(written)} fields; write five (minute, hour, day of month, month, day of "
            "week), such as 30 2 * * mon-fri, or a word such as @daily"
        )
    minutes, hours, days, months, weekdays = (
        _read_field(part, *field) for part, field in zip(written, _FIELDS, strict=True)
    )
    rule = TimeRule(
        text=tidy,
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=frozenset(day % _SUNDAY_LAST for day in weekdays),
        either_day=not (written[2].startswith("*") or written[4].startswith("*")),
    )
    if not _ever_falls(rule):
        raise ValueError("never comes: no month named has such a day; name another day or month")
    return rule


def _ever_falls(rule: TimeRule) -> bool:
    first = date(2096, 1, 1)
    return any(rule.falls_on(first + timedelta(days=ahead)) for ahead in range(_YEARS * 366))


def _read_field(
    text: str, name: str, least: int, most: int, names: Mapping[str, int]
) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(
                f"has {part[:20]!r} as {name}; write numbers, ranges such as 1-5, lists such as "
                "1,3, steps such as */2, or *"
            )
        begin, end, step = match.groups()
        every = int(step[:4]) if step else 1
        if not 1 <= every <= most:
            raise ValueError(f"has a step of {every} as {name}; write 1 to {most}")
        if begin == "*":
            if end is not None:
                raise ValueError(f"has {part[:20]!r} as {name}; write * or a range, not both")
            found.update(range(least, most + 1, every))
            continue
        first = _read_value(begin, name, least, most, names)
        if end is None and step is not None:
            raise ValueError(
                f"has {part[:20]!r} as {name}; a step needs a range, such as {first}-{most}/{every}"
            )
        last = first if end is None else _read_value(end, name, least, most, names)
        if names is _DAYS and last == 0 < first:
            last = _SUNDAY_LAST
        if last < first:
            raise ValueError(
                f"has {part[:20]!r} as {name}, which runs backwards; write two ranges with a comma"
            )
        found.update(range(first, last + 1, every))
    return frozenset(found)


def _read_value(text: str, name: str, least: int, most: int, names: Mapping[str, int]) -> int:
    if text in names:
        return names[text]
    number = int(text) if text.isdecimal() and len(text) <= 2 else -1
    if not least <= number <= most:
        known = f", or {', '.join(names)}" if names else ""
        raise ValueError(f"has {text[:20]!r} as {name}; write {least} to {most}{known}")
    return number
