"""Moments in addresses: which time a page shows, and what is wrong with what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from portal.forms.spans import utc_of

FARTHEST = timedelta(days=730)
SPANS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
USUAL = "24h"
SHORTEST, LONGEST = timedelta(minutes=10), timedelta(days=31)
# So much of the picture is past, the rest is to come.
PAST_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Window:
    """What is shown; `span`: the name of its width, empty if it has none; `is_now`: moves along."""

    start: datetime
    end: datetime
    span: str
    is_now: bool

    @property
    def ways(self) -> list[tuple[str, str, str]]:
        """Where else to look: words, from and to as an address says them."""
        width = self.end - self.start
        found = [
            ("Earlier", self.start - width / 2, self.end - width / 2),
            ("Later", self.start + width / 2, self.end + width / 2),
            ("Zoom in", self.start + width / 4, self.end - width / 4),
            ("Zoom out", self.start - width / 2, self.end + width / 2),
        ]
        return [
            (words, address_of(start), address_of(end))
            for words, start, end in found
            if SHORTEST <= end - start <= LONGEST
        ]


def kept_beside(asked: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """What else of these an address asks for, where only its time is to change."""
    of_time = ("span", "at", "from", "to", "part")
    return {name: asked[name] for name in names if name not in of_time and asked.get(name)}


def address_of(at: datetime) -> str:
    """A moment as an address says it, to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def read_moment(text: str, now: datetime) -> datetime:
    """Raises ValueError with what is wrong, to follow the name of the parameter."""
    try:
        typed = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise ValueError("is no moment such as 2026-11-20T14:00Z") from None
    try:
        at = utc_of(typed)
    except OverflowError:
        raise ValueError("lies more than two years away") from None
    if abs(at - now) > FARTHEST:
        raise ValueError("lies more than two years away")
    return at


def window_of(asked: Mapping[str, str], now: datetime, problems: list[str]) -> Window:
    """By `from` and `to`, one of them and a `span`, or a span `at` a moment, which is now."""
    span = asked.get("span", USUAL)
    if span not in SPANS:
        problems.append(f"span: is one of {', '.join(SPANS)}; this is {USUAL}.")
        span = USUAL
    width = SPANS[span]
    start, end, at = (_read(asked, name, now, problems) for name in ("from", "to", "at"))
    if start is not None and end is not None:
        if SHORTEST <= end - start <= LONGEST:
            return Window(start, end, _name(end - start), False)
        problems.append("to: lies ten minutes to 31 days after from; this is now.")
    elif start is not None:
        return Window(start, start + width, span, False)
    elif end is not None:
        return Window(end - width, end, span, False)
    middle = at or now
    return Window(middle - PAST_SHARE * width, middle + (1 - PAST_SHARE) * width, span, at is None)


def _read(
    asked: Mapping[str, str], name: str, now: datetime, problems: list[str]
) -> datetime | None:
    if not (text := asked.get(name, "")):
        return None
    try:
        return read_moment(text, now)
    except ValueError as error:
        problems.append(f"{name}: {error}; it is left out.")
        return None


def _name(width: timedelta) -> str:
    return next((name for name, span in SPANS.items() if span == width), "")
