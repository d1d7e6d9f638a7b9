"""What happened while a chart's lines were drawn, as upright lines in it and as a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from portal.reports.charts import Chart, stamp
from scheduler.models import Attempt, JobEvent
from scheduler.states import EndReason, end_sentence

# With more of one kind their words would lie over each other; the list has them all.
WORDS_AT_MOST = 4
DRAWN_AT_MOST = 60
# Words nearer to each other than this share of the chart lie over each other on a phone.
_APART = 0.05
_PLACED = "placed"
_PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True)
class Mark:
    """`word` stands in the chart, if there is one, `said` in the list below it."""

    at: datetime
    word: str
    said: str


def marks_of(attempt: Attempt, events: Iterable[JobEvent]) -> list[Mark]:
    """Placed, running, each checkpoint, asked to stop, over; the oldest first."""
    found = [Mark(attempt.assigned_at, _PLACED, f"Attempt {attempt.number} was placed")]
    if attempt.started_at:
        found.append(Mark(attempt.started_at, "running", "It ran"))
    for event in events:
        if event.kind == "checkpoint" and event.detail.get("attempt") == attempt.number:
            step = event.detail.get("step")
            said = f"Checkpoint, step {step}" if step is not None else "Checkpoint"
            found.append(Mark(event.at, "checkpoint", said))
    reason = attempt.end_reason or attempt.stop_reason
    is_preempted = reason.startswith(_PREEMPTED)
    if attempt.stopping_at:
        why = "It was asked to make room" if is_preempted else "It was asked to stop"
        found.append(Mark(attempt.stopping_at, "preempted" if is_preempted else "stop", why))
    if attempt.ended_at:
        said = end_sentence(EndReason(reason), attempt.end_facts) if reason else "It ended"
        found.append(Mark(attempt.ended_at, "end", said))
    return sorted(found, key=lambda mark: mark.at)


def with_marks(
    charts: Sequence[Chart], marks: Sequence[Mark], *, since: datetime, until: datetime
) -> list[Chart]:
    """The same charts with the marks of this time in them, and words where there is room."""
    shown = [mark for mark in marks if since <= mark.at <= until]
    drawn = shown[-DRAWN_AT_MOST:]
    layout = {
        "shapes": [_line(mark) for mark in drawn],
        "annotations": [_words(mark) for mark in _with_room(drawn, (until - since) * _APART)],
    }
    return [
        replace(chart, figure={**chart.figure, "layout": {**chart.figure["layout"], **layout}})
        if chart.rows
        else chart
        for chart in charts
    ]


def _with_room(marks: Sequence[Mark], apart: timedelta) -> list[Mark]:
    """Those whose words have room: an end and a stop before a checkpoint beside them."""
    points = [mark for mark in marks if mark.word == "checkpoint"]
    turns = [mark for mark in marks if mark.word != "checkpoint"]
    kept: list[Mark] = []
    for mark in (*reversed(turns), *(points if len(points) <= WORDS_AT_MOST else ())):
        if all(abs(mark.at - other.at) >= apart for other in kept):
            kept.append(mark)
        elif mark.word == _PLACED:
            # Most start at once: the word of the next line then names both.
            after = kept.pop()
            kept.append(replace(after, word=f"{_PLACED}, {after.word}"))
    return sorted(kept, key=lambda mark: mark.at)


def _line(mark: Mark) -> dict[str, Any]:
    at = stamp(mark.at)
    dash = "dot" if mark.word == "checkpoint" else "dash"
    where = {"xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    return {"type": "line", **where, "line": {"width": 1, "dash": dash}}


def _words(mark: Mark) -> dict[str, Any]:
    """Upright beside its line, so that neighbours do not lie over each other; at the
    foot, where readings seldom are."""
    return {
        "x": stamp(mark.at),
        "y": 0,
        "xref": "x",
        "yref": "paper",
        "text": mark.word,
        "textangle": -90,
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 10},
    }
