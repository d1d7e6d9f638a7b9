"""How far a job was over time by its own log, drawn for its page, and said in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.pages.access import page, viewer_of
from portal.templatetags import measures
from scheduler.selectors.jobs import get_visible_job
from scheduler.selectors.logs import get_readable_placement
from scheduler.selectors.printed.course import Course, Point, course_of
from scheduler.selectors.printed.progress import progress_of
from scheduler.states import LIVE_JOB_STATES, JobState

# Of the picture, and of what stands left of, above and below the lines.
_WIDE, _LEFT, _RIGHT, _TOP, _HIGH, _BELOW = 200, 28, 196, 9, 84, 12
# What is to come takes at most so many times what was: else one that began just now shows nothing.
_MOST_AHEAD = 4
# Seconds from one line of time to the next, of which there are so many at most.
_STEPS_S = (
    *(1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600),
    *(86400, 2 * 86400, 7 * 86400, 14 * 86400, 28 * 86400, 84 * 86400),
)
_MOST_LINES = 4
# It stands still below this share of its pace, for at least this share of the time.
_STANDS, _LONG = 0.1, 0.05
# What lately is, of the time from the first report to the last.
_LATELY = 0.25
_SAID = 4


@dataclass(frozen=True, slots=True)
class Shown:
    """A course with its picture and what it says: `lately` and, of it, the pace in per cent of the
    whole time's; `stood` for how long it stood still, the longest time, and since when."""

    course: Course
    picture: SafeString
    rows: list[tuple[timedelta, str, int]]
    lately: timedelta | None
    pace: float
    stood: timedelta | None
    stood_since: datetime | None


@page("GET")
def job_progress(request: HttpRequest, pk: int) -> HttpResponseBase:
    """A region of the job's page; hidden while its log says nothing of how far it is, a sentence
    while that is too little for a picture."""
    viewer, now = viewer_of(request), timezone.now()
    job = get_visible_job(viewer, pk)
    placement = get_readable_placement(viewer, job)
    progress = course = None
    if job.state == JobState.RUNNING and placement is not None:
        progress = progress_of(placement, now=now)
    if progress is not None and placement is not None:
        course = course_of(placement, now=now, progress=progress)
    context = {
        "job": job,
        "progress": progress,
        "is_live": job.state in LIVE_JOB_STATES,
        "shown": shown_course(course, now=now) if course is not None else None,
        "now": now,
    }
    return render(request, "jobs/logs/_progress.html", context)


def shown_course(course: Course, *, now: datetime) -> Shown:
    """As of `now`."""
    points = course.points
    first, last = points[0], points[-1]
    whole, done = (last.at - first.at).total_seconds(), last.done - first.done
    stood, since = _longest_stand(points)
    begin = [one for one in points if last.at - one.at >= _LATELY * (last.at - first.at)][-1]
    lately = (last.at - begin.at).total_seconds()
    return Shown(
        course,
        draw_course(course, now=now),
        [(one.at - course.began, f"{one.done:,}", one.done) for one in points],
        last.at - begin.at if done and lately else None,
        100 * (last.done - begin.done) / lately * whole / done if done and lately else 0.0,
        stood,
        since,
    )


def _longest_stand(points: Sequence[Point]) -> tuple[timedelta | None, datetime | None]:
    """The longest time in which it did next to nothing; None where it always went on."""
    first, last = points[0], points[-1]
    whole = last.at - first.at
    usual = (last.done - first.done) / max(whole.total_seconds(), 1.0)
    found: tuple[timedelta | None, datetime | None] = (None, None)
    longest, since, until = whole * _LONG, first.at, first.at
    for one, after in pairwise(points):
        if after.done - one.done > _STANDS * usual * (after.at - one.at).total_seconds():
            continue
        since = since if one.at == until else one.at
        until = after.at
        if until - since > longest:
            longest = until - since
            found = longest, since
    return found


@dataclass(frozen=True, slots=True)
class _Frame:
    """From moments and counts to places in the picture."""

    course: Course
    until: datetime
    top: float

    def x(self, at: datetime) -> float:
        share = (at - self.course.began) / (self.until - self.course.began)
        return round(_LEFT + (_RIGHT - _LEFT) * min(max(share, 0.0), 1.0), 1)

    def y(self, done: float) -> float:
        return round(_TOP + _HIGH * (1 - min(done / self.top, 1.0)), 1)


def draw_course(course: Course, *, now: datetime) -> SafeString:
    """What was done as a line with a dot for each report, and where it goes on as a dashed one."""
    frame, ahead = _framed(course, now)
    marks = [(0.0, "0 %")]
    marks += [(done, _percent(done, course)) for done in (frame.top / 2, frame.top)]
    dots = ((frame.x(one.at), frame.y(one.done), _words(course, one)) for one in course.points)
    way = " ".join(f"{frame.x(one.at):g} {frame.y(one.done):g}" for one in course.points)
    return format_html(
        '<svg class="weekmap" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}{}'
        '<path class="rm-soon" vector-effect="non-scaling-stroke" d="M{}"/>{}</svg>',
        _WIDE, _TOP + _HIGH + _BELOW, course_summary(course),
        format_html_join(
            "",
            '<path class="hair" d="M{} {}H{}"/><text x="0" y="{}">{}</text>',
            ((_LEFT, frame.y(done), _RIGHT, frame.y(done) + 2, said) for done, said in marks),
        ),
        format_html_join(
            "",
            '<path class="hair" d="M{} {}v3"/><text x="{}" y="{}" text-anchor="middle">{}</text>',
            _times(frame),
        ),
        _now_line(frame, now) if ahead else "",
        ahead, way,
        format_html_join(
            "", '<circle class="b-used" cx="{}" cy="{}" r="1.4"><title>{}</title></circle>', dots
        ),
    )  # fmt: skip


def _framed(course: Course, now: datetime) -> tuple[_Frame, SafeString]:
    """Until when and how high it is drawn, and what is to come; that is empty if nobody knows."""
    last, total, ends_at = course.points[-1], course.progress.total, course.progress.ends_at
    now = max(now, last.at, course.began + timedelta(seconds=1))
    if ends_at is None or ends_at <= last.at:
        return _Frame(course, now, _top(last.done, total)), SafeString("")
    until = min(ends_at, now + _MOST_AHEAD * (now - course.began))
    reach = last.done + (total - last.done) * ((until - last.at) / (ends_at - last.at))
    frame = _Frame(course, until, _top(reach, total))
    return frame, format_html(
        '<path class="rm-need" vector-effect="non-scaling-stroke" d="M{} {}L{} {}"/>',
        frame.x(last.at), frame.y(last.done), frame.x(until), frame.y(reach),
    )  # fmt: skip


def _top(reach: float, total: int) -> float:
    """All of it, or what is reached where that would lie at the foot of the picture."""
    return reach if 0 < reach < total / 2 else float(total)


def _now_line(frame: _Frame, now: datetime) -> SafeString:
    x = frame.x(now)
    return format_html(
        '<path class="rm-past" vector-effect="non-scaling-stroke" d="M{} {}V{}"/>'
        '<text x="{}" y="6" text-anchor="middle">now</text>',
        x, _TOP, _TOP + _HIGH, min(x, _RIGHT - 4),
    )  # fmt: skip


def _percent(done: float, course: Course) -> str:
    share = 100 * done / course.progress.total
    return f"{round(share, 0 if share >= 10 else 2):g} %"


def _times(frame: _Frame) -> Iterator[tuple[float, int, float, int, str]]:
    """A mark at each whole step of the time since it began."""
    whole = (frame.until - frame.course.began).total_seconds()
    step = next((one for one in _STEPS_S if whole / one <= _MOST_LINES), whole / _MOST_LINES)
    for number in range(int(whole / step) + 1):
        x = frame.x(frame.course.began + timedelta(seconds=number * step))
        said = measures.duration(number * step) if number else "begin"
        yield x, _TOP + _HIGH, min(x, _RIGHT - 2 * len(said)), _TOP + _HIGH + 10, said


def _words(course: Course, point: Point) -> str:
    unit = course.progress.unit
    return f"{unit} {point.done:,} after {measures.duration(point.at - course.began)}".strip()


def course_summary(course: Course) -> str:
    """The picture in a sentence: some of its points; the table below it has them all."""
    points, last = course.points, len(course.points) - 1
    some = sorted({round(last * number / (_SAID - 1)) for number in range(_SAID)})
    said = ", ".join(_words(course, points[number]) for number in some)
    return f"Of {course.progress.total:,}: {said}. The table has all."
