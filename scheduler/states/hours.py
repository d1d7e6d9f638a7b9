"""When a person wants to be told: quiet hours, and mails that come together.

The inbox is told at once, whatever stands here. A mail waits for the next digest if its reader
wants digests; mails and chats wait for the end of quiet hours. What is urgent waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum

_MONDAY = 0


class MailRhythm(StrEnum):
    """How often mails come."""

    AT_ONCE = "at_once"
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"


RHYTHM_WORDS = {
    MailRhythm.AT_ONCE: "one for each, at once",
    MailRhythm.HOURLY: "one an hour",
    MailRhythm.DAILY: "one a day",
    MailRhythm.WEEKLY: "one a week, on Mondays",
}


@dataclass(frozen=True, slots=True)
class Hours:
    """What one person chose; `zone` is a name such as Europe/Berlin that times of day are of.

    Daily and weekly mails come at `digest_at`. It is quiet from `quiet_from` to `quiet_until`, over
    midnight too; both None: never. `urgent`: kinds of news that wait for nothing.
    """

    mail: MailRhythm = MailRhythm.AT_ONCE
    digest_at: time = time(8)
    zone: str = "UTC"
    quiet_from: time | None = None
    quiet_until: time | None = None
    urgent: frozenset[str] = frozenset()


def mail_due_at(hours: Hours, kind: str, now: datetime) -> datetime:
    """When a mail of this kind goes out; `now` for at once. In UTC where it is later."""
    if kind in hours.urgent:
        return now
    return _after_quiet(hours, _next_digest(hours, now))


def chat_due_at(hours: Hours, kind: str, now: datetime) -> datetime:
    """When a message of this kind goes to the person's own chat."""
    return now if kind in hours.urgent else _after_quiet(hours, now)


def is_quiet(hours: Hours, at: datetime) -> bool:
    """Whether `at` lies in the quiet hours; their end does not."""
    begin, end = hours.quiet_from, hours.quiet_until
    if begin is None or end is None:
        return False
    wall = at.astimezone(_zone(hours.zone)).time()
    return begin <= wall < end if begin < end else wall >= begin or wall < end


def _after_quiet(hours: Hours, at: datetime) -> datetime:
    if hours.quiet_until is None or not is_quiet(hours, at):
        return at
    return _next(hours.zone, hours.quiet_until, at)


def _next_digest(hours: Hours, now: datetime) -> datetime:
    if hours.mail == MailRhythm.AT_ONCE:
        return now
    if hours.mail == MailRhythm.HOURLY:
        whole = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return whole + timedelta(hours=1)
    day = _MONDAY if hours.mail == MailRhythm.WEEKLY else None
    return _next(hours.zone, hours.digest_at, now, weekday=day)


def _next(zone: str, wall: time, after: datetime, *, weekday: int | None = None) -> datetime:
    """The next moment at which clocks of the zone show this time. A time that a change of clocks
    leaves out is an hour later; of one that comes twice the next counts."""
    return next(at for at in _moments(_zone(zone), wall, after, weekday) if at > after)


def _zone(name: str) -> tzinfo:
    """UTC for a zone that this machine knows no more: one person's must not keep others' mails."""
    from zoneinfo import ZoneInfo  # not for supervisors: each is a fork with all that is loaded

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError):
        return UTC


def _moments(zone: tzinfo, wall: time, after: datetime, weekday: int | None) -> Iterator[datetime]:
    today = after.astimezone(zone).date()
    for ahead in range(9):
        day = today + timedelta(days=ahead)
        if weekday is None or day.weekday() == weekday:
            for fold in (0, 1):
                yield datetime.combine(day, wall.replace(fold=fold), zone).astimezone(UTC)
