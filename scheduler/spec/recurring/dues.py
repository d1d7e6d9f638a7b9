"""When a rule of time is due in a zone, over changes of its clocks.

A time that clocks leave out is due at the next minute that there is; one that comes twice is due
the first time alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from scheduler.spec.recurring.rules import TimeRule

_MINUTE = timedelta(minutes=1)
_MOMENT = timedelta(microseconds=1)
# Between two looks and how long they take: what is found no later than this is on time.
ON_TIME = timedelta(minutes=2)
# No rule that was read stays away for longer.
_DAYS_AHEAD = 9 * 366


def read_zone(name: str) -> ZoneInfo:
    """Raises ValueError as `read_time_rule` does."""
    try:
        if name in _zone_names():
            return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        pass
    raise ValueError(
        f"knows no zone {name[:40]!r}; write its name, such as Europe/Berlin, America/New_York "
        "or UTC"
    )


def dues_after(rule: TimeRule, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Every moment at which it is due after this one, in UTC and in order; each once."""
    today, last = after.astimezone(zone).date(), after.astimezone(UTC)
    for ahead in range(_DAYS_AHEAD):
        day = today + timedelta(days=ahead)
        if not rule.falls_on(day):
            continue
        for hour in rule.hours:
            for minute in rule.minutes:
                due = _moment(datetime.combine(day, time(hour, minute)), zone)
                if due > last:
                    last = due
                    yield due


def next_due(rule: TimeRule, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first of `dues_after`; None where the calendar ends before."""
    return next(dues_after(rule, zone, after), None)


def latest_due(
    rule: TimeRule, zone: ZoneInfo, *, after: datetime, until: datetime
) -> datetime | None:
    """The last moment due after the one and not after the other; None where there is none."""
    latest = None
    for due in dues_after(rule, zone, after):
        if due > until:
            break
        latest = due
    return latest


def made_up_for(
    rule: TimeRule,
    zone: ZoneInfo,
    *,
    first: datetime,
    now: datetime,
    until: datetime,
    within: timedelta,
) -> datetime | None:
    """Of all due times from `first` to `until` the last that is found no later than `within`, which
    stands for all of them; None where it is too late for each."""
    after = max(first, now - max(within, ON_TIME)) - _MOMENT
    due = latest_due(rule, zone, after=after, until=until)
    # The rule may be another one by now.
    return first if due is None and now - first <= ON_TIME else due


def _moment(wall: datetime, zone: ZoneInfo) -> datetime:
    """When clocks of the zone first show this, or the next minute that they do show."""
    while True:
        at = wall.replace(tzinfo=zone).astimezone(UTC)
        if at.astimezone(zone).replace(tzinfo=None) == wall:
            return at
        wall += _MINUTE


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())
