"""The week of a pool's line as a picture of hours; the table below it says the same."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from django.utils.safestring import SafeString

from portal.templatetags import measures
from scheduler.selectors.waits.hours import DAYS, HourCell, WaitHistory

# Of a cell with its gap, and of what stands left of and above the cells.
_STEP, _LEFT, _TOP = 12, 26, 12
LEGEND = (
    ("u0", "up to 1 min"),
    ("u1", "10 min"),
    ("u2", "1 h"),
    ("u3", "4 h"),
    ("u4", "12 h"),
    ("u5", "longer"),
    ("free", "nobody started"),
)


def week_picture(cells: Sequence[HourCell]) -> SafeString:
    """Seven rows of 24 squares, the darker the longer people had waited."""
    hours = (f'<text x="{_LEFT + _STEP * n}" y="8">{n:02d}</text>' for n in range(0, 24, 3))
    days = (f'<text x="0" y="{_TOP + _STEP * n + 8}">{day}</text>' for n, day in enumerate(DAYS))
    return SafeString(
        f'<svg class="weekmap" viewBox="0 0 {_LEFT + 24 * _STEP} {_TOP + 7 * _STEP}" role="img" '
        'aria-label="Median wait by weekday and hour; the table below says the same">'
        f"{''.join(hours)}{''.join(days)}{''.join(map(_square, cells))}</svg>"
    )


def _square(cell: HourCell) -> str:
    css = "free" if cell.step < 0 else f"u{cell.step}"
    return (
        f'<rect class="sq {css}" x="{_LEFT + _STEP * cell.hour}" y="{_TOP + _STEP * cell.day}" '
        f'width="10" height="10" rx="2"><title>{escape(_words(cell))}</title></rect>'
    )


def _words(cell: HourCell) -> str:
    wait = "nobody started" if cell.p50_s is None else measures.duration(cell.p50_s)
    return f"{DAYS[cell.day]} {cell.hour:02d}:00, {wait}"


def week_table(history: WaitHistory) -> list[tuple[str, list[HourCell]]]:
    """By hour the cells of the seven days."""
    return [
        (f"{hour:02d}:00", [history.cells[24 * day + hour] for day in range(7)])
        for hour in range(24)
    ]
