"""Moments as sbatch takes them for `--begin` and `--deadline`; here they are read as UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

HELP = "is not a time that sbatch takes, such as 2026-12-31T08:00, 16:30, tomorrow or now+2hours"
ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?)?", re.ASCII)
_LATER = re.compile(r"now(?:\+(\d{1,9})([a-z]*))?", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s*(am|pm))?", re.ASCII)
_DAY = re.compile(r"(\d{2})(?:([/.]?)(\d{2}))(?:\2(\d{2}))?", re.ASCII)
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800}
_NAMED = {"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}


def is_written_out(text: str) -> bool:
    """Whether it names a day of a year, which a spec takes as it is."""
    return ISO.fullmatch(text) is not None


def read_moment(text: str, now: datetime) -> datetime:
    """In UTC, whole seconds; what names no day is the next of its kind. Raises ValueError."""
    try:
        if is_written_out(text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        text = text.strip().lower()
        found = _relative(text, now) or _of_clock(text, now) or _of_day(text, now)
    except (ValueError, OverflowError):
        raise ValueError(HELP) from None
    if found is None:
        raise ValueError(HELP)
    return found.replace(microsecond=0)


def _relative(text: str, now: datetime) -> datetime | None:
    if text in ("today", "tomorrow"):
        midnight = datetime.combine(now.date(), time(), UTC)
        # Of today nothing is left to wait for.
        return now if text == "today" else midnight + timedelta(days=1)
    match = _LATER.fullmatch(text)
    if match is None:
        return None
    count, unit = int(match[1] or 0), match[2] or "seconds"
    # As sbatch does, a unit may be cut short: min, hour.
    sizes = [size for name, size in _UNITS.items() if name.startswith(unit)]
    if not sizes:
        raise ValueError(unit)
    return now + timedelta(seconds=count * sizes[0])


def _of_clock(text: str, now: datetime) -> datetime | None:
    """The next time that clocks show this."""
    if text in _NAMED:
        at = time(_NAMED[text])
    elif (match := _CLOCK.fullmatch(text)) is not None:
        at = _time(match)
    else:
        return None
    found = datetime.combine(now.date(), at, UTC)
    return found if found > now else found + timedelta(days=1)


def _time(match: re.Match[str]) -> time:
    hour, half = int(match[1]), match[4]
    if half and not 1 <= hour <= 12:
        raise ValueError(match[0])
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, int(match[2]), int(match[3] or 0))


def _of_day(text: str, now: datetime) -> datetime | None:
    """Month and day, as 1231, 12/31 or 12.31, with a year of two digits or the next such day; then
    a time of day after a dash."""
    day, _, clock = text.partition("-")
    match = _DAY.fullmatch(day)
    if match is None:
        return None
    at = time()
    if clock:
        of_clock = _CLOCK.fullmatch(clock)
        if of_clock is None:
            raise ValueError(clock)
        at = _time(of_clock)
    month, number = int(match[1]), int(match[3])
    if match[4]:
        return datetime.combine(date(2000 + int(match[4]), month, number), at, UTC)
    for year in range(now.year, now.year + 9):
        try:
            found = datetime.combine(date(year, month, number), at, UTC)
        except ValueError:
            # The 29th of February is not in every year.
            continue
        if found > now:
            return found
    raise ValueError(text)
