"""The tasks of an array as squares in the order of their indexes; the numbers beside say the same.

A picture has one path for each state, however many squares: ten thousand elements would be slow to
draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduler.states import JobState

# Of a square with its gap; squares in a line; squares at most.
_STEP, _COLUMNS, _MOST = 12, 60, 1_200
# What one square of several tasks shows: the first of these that one of them is in.
_GRAVEST = (
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.RUNNING,
    JobState.STOPPING,
    JobState.STARTING,
    JobState.QUEUED,
    JobState.HELD,
    JobState.SUCCEEDED,
)


def tasks_of_a_square(size: int) -> int:
    """How many tasks one square stands for."""
    return -(-size // _MOST)


def grid_picture(states: Sequence[str]) -> SafeString:
    """One square a task, or a few tasks by the gravest of them. `states`: by index."""
    each = tasks_of_a_square(len(states)) or 1
    squares = [_gravest(states[at : at + each]) for at in range(0, len(states), each)]
    columns, lines = min(len(squares), _COLUMNS), -(-len(squares) // _COLUMNS)
    size = (columns * _STEP, lines * _STEP)
    paths = ((state, _path(squares, state), state) for state in _GRAVEST if state in squares)
    return format_html(
        '<svg class="taskgrid" viewBox="0 0 {} {}" width="{}" height="{}" role="img" '
        'aria-label="Tasks by index; the numbers by state say the same">{}</svg>',
        *size, *size,
        format_html_join("", '<path class="sq g-{}" d="{}"><title>{}</title></path>', paths),
    )  # fmt: skip


def _gravest(states: Iterable[str]) -> str:
    found = set(states)
    return next(state for state in _GRAVEST if state in found)


def _path(squares: Sequence[str], state: str) -> str:
    """A failed one is crossed out, so that colour is not all that tells it."""
    drawn = "h10v10h-10zl10 10m0-10l-10 10" if state == JobState.FAILED else "h10v10h-10z"
    places = (divmod(at, _COLUMNS) for at, one in enumerate(squares) if one == state)
    return "".join(f"M{column * _STEP + 1} {line * _STEP + 1}{drawn}" for line, column in places)
