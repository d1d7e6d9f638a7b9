"""Rules of time as people say them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler.spec.recurring.rules import TimeRule

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
# More times of a day are no longer read as a list.
_MOST_TIMES = 4
_WEEK, _MONTH, _YEAR = range(7), range(1, 32), range(1, 13)
_SPANS = {frozenset(range(1, 6)): "Monday to Friday", frozenset({0, 6}): "Saturday and Sunday"}


def spoken(rule: TimeRule) -> str:
    """`At 02:30, Monday to Friday`; empty where that would be no easier to read than the rule."""
    times, days = _times(rule), _days(rule)
    if not times or not days:
        return ""
    months = ""
    if rule.months != frozenset(_YEAR):
        months = f" in {_and([_MONTHS[month - 1] for month in sorted(rule.months)])}"
    said = f"{times}, {days}{months}"
    return said[0].upper() + said[1:]


def _times(rule: TimeRule) -> str:
    minutes, hours = rule.minutes, rule.hours
    if len(hours) == 24:
        if len(minutes) == 1:
            return f"every hour at :{minutes[0]:02}"
        every = _step(minutes, 60)
        return f"every {every} minutes" if every > 1 else "every minute" if every else ""
    if len(hours) * len(minutes) <= _MOST_TIMES:
        return f"at {_and([f'{hour:02}:{minute:02}' for hour in hours for minute in minutes])}"
    every = _step(hours, 24)
    return f"every {every} hours at :{minutes[0]:02}" if every and len(minutes) == 1 else ""


def _step(values: Sequence[int], whole: int) -> int:
    """How far apart they are, all round from 0; 0 where they are not."""
    every = whole // len(values)
    return every if list(values) == list(range(0, whole, every)) else 0


def _days(rule: TimeRule) -> str:
    in_month = "" if rule.days == frozenset(_MONTH) else f"on the {_and(_ordinals(rule.days))}"
    in_week = "" if rule.weekdays == frozenset(_WEEK) else _weekdays(rule.weekdays)
    if not (in_month and in_week):
        return in_month or in_week or "every day"
    return f"{in_month} and on every {in_week}" if rule.either_day else ""


def _weekdays(days: Collection[int]) -> str:
    # Monday first.
    named = [_DAYS[day] for day in sorted(days, key=lambda day: (day - 1) % 7)]
    return _SPANS.get(frozenset(days), _and(named))


def _ordinals(days: Collection[int]) -> list[str]:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return [
        f"{day}{'th' if day in (11, 12, 13) else ends.get(day % 10, 'th')}" for day in sorted(days)
    ]


def _and(words: Sequence[str]) -> str:
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last
