"""Axes: how charts name moments and figures; and the one that begins now, on which it is drawn
when waiting jobs start, below each other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils.safestring import SafeString

# Plotly itself says `Nov 29, 2026`. What follows \n stands once, under the first of its day.
TIME_AXIS: dict[str, Any] = {
    "type": "date",
    "nticks": 5,
    "tickangle": 0,
    "ticklabelstandoff": 8,
    "hoverformat": "%-d %b %Y, %H:%M:%S",
    "tickformatstops": [
        {"dtickrange": [None, 59_999], "value": "%H:%M:%S\n%-d %b %Y"},
        {"dtickrange": [60_000, 86_399_999], "value": "%H:%M\n%-d %b %Y"},
        {"dtickrange": [86_400_000, None], "value": "%-d %b\n%Y"},
    ],
}
# Of values, as the tables beside a chart say them: Plotly itself has `5000` and `10k`.
WHOLE_FIGURES = {"separatethousands": True, "exponentformat": "none"}

# From when it probably starts until when at the latest; None where nobody knows.
Window = tuple[datetime | None, datetime | None]
# The shortest of these that shows every window whole is the axis.
_SPANS = tuple(
    (timedelta(hours=hours), words)
    for hours, words in (
        (1, "next hour"),
        (3, "next 3 h"),
        (12, "next 12 h"),
        (24, "next 24 h"),
        (72, "next 3 days"),
        (168, "next 7 days"),
        (720, "next 30 days"),
    )
)
_AXIS = (
    '<path class="ax" d="M0 19.5H1000"/>'
    '<path class="ax" d="M250 16V19.5M500 16V19.5M750 16V19.5" vector-effect="non-scaling-stroke"/>'
)


def draw_windows(windows: Sequence[Window], *, now: datetime) -> tuple[list[SafeString], str]:
    """Each window, and in words how far their axis goes; empty where no start is known."""
    ends = [last for _, last in windows if last is not None]
    if not ends:
        return [SafeString("")] * len(windows), ""
    furthest = max(ends) - now
    span, words = next((one for one in _SPANS if one[0] >= furthest), _SPANS[-1])
    return [_picture(first, last, now, span) for first, last in windows], words


def _picture(
    first: datetime | None, last: datetime | None, now: datetime, span: timedelta
) -> SafeString:
    """A mark where it probably starts, and a pale bar until where it starts at the latest."""
    if last is None:
        return SafeString("")
    begin, end = _place(first or last, now, span), _place(last, now, span)
    return SafeString(
        '<svg class="win" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">'
        f'{_AXIS}<rect class="w90" x="{begin}" y="5" width="{max(0, end - begin)}" height="11"/>'
        f'<rect class="w50" x="{begin}" y="4" width="12" height="13"/></svg>'
    )


def _place(moment: datetime, now: datetime, span: timedelta) -> int:
    """Where it lies on an axis of 1000, with room for its own mark at the end."""
    return min(988, max(0, round((moment - now) / span * 1000)))
