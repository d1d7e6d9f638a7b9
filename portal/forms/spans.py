"""Moments that people type; a span of time in an address: `?from=` and `?to=`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils import timezone

_FARTHEST = timedelta(days=3660)


@dataclass(frozen=True, slots=True)
class Span:
    """Either end may be open."""

    since: datetime | None = None
    until: datetime | None = None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None


def utc_of(typed: datetime) -> datetime:
    """What was typed, in UTC; without a zone it is meant in that of the page.

    ValueError for an hour that the clocks of the zone have twice or leave out, and OverflowError
    at the edges of the calendar.
    """
    if typed.tzinfo is not None:
        return typed.astimezone(UTC)
    zone = timezone.get_current_timezone()
    first, second = (typed.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        raise ValueError(
            f"{typed:%H:%M} comes twice or not at all on that day, as clocks are changed in "
            f"{zone}; choose an hour earlier or later"
        )
    return first.astimezone(UTC)


def read_span(given: Mapping[str, str], *, now: datetime, problems: list[str]) -> Span:
    """A moment without a zone is meant in that of the page; a wrong end stays open."""
    ends: dict[str, datetime | None] = {"from": None, "to": None}
    for name in ends:
        if text := given.get(name, ""):
            try:
                ends[name] = _moment(text, now)
            except ValueError as error:
                problems.append(f"{name}: {error}.")
    since, until = ends["from"], ends["to"]
    if since and until and until <= since:
        problems.append("to: is not after the begin; all of the time is shown.")
        return Span()
    return Span(since, until)


def _moment(text: str, now: datetime) -> datetime:
    wrong = ValueError(f"{text[:30]!r} is no moment; write it like 2026-11-20T14:00")
    try:
        typed = datetime.fromisoformat(text[:41].replace(" ", "+"))
    except ValueError:
        raise wrong from None
    try:
        at = utc_of(typed)
    except OverflowError:
        raise wrong from None
    if abs(at - now) > _FARTHEST:
        raise wrong
    return at
