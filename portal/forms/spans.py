"""A span of time in an address: `?from=` and `?to=` as moments; what is wrong is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

_FARTHEST = timedelta(days=3660)


@dataclass(frozen=True, slots=True)
class Span:
    """Either end may be open."""

    since: datetime | None = None
    until: datetime | None = None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None


def read_span(given: Mapping[str, str], *, now: datetime, problems: list[str]) -> Span:
    """A moment without a zone is meant in UTC, as pages show it; a wrong end stays open."""
    ends: dict[str, datetime | None] = {}
    for name in ("from", "to"):
        text = given.get(name, "")
        ends[name] = _moment(text, now)
        if text and ends[name] is None:
            problems.append(f"{name}: {text[:30]!r} is no moment; write it like 2026-11-20T14:00.")
    since, until = ends["from"], ends["to"]
    if since and until and until <= since:
        problems.append("to: is not after the begin; all of the time is shown.")
        return Span()
    return Span(since, until)


def _moment(text: str, now: datetime) -> datetime | None:
    if not text or len(text) > 40:
        return None
    try:
        at = datetime.fromisoformat(text.replace(" ", "+"))
        at = at if at.tzinfo else timezone.make_aware(at)
        return at if abs(at - now) <= _FARTHEST else None
    except (ValueError, OverflowError):
        return None
