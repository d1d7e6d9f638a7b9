"""How rows of bars are drawn along time: the timeline, and the week of the bookings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from heapq import heappop, heappush
from html import escape

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.reports.links import links_to
from portal.templatetags.moments import zone_word
from scheduler.selectors.machines.timeline import Bar, Row

WIDTH, LABEL, LANE, HEAD = 1200, 110, 20, 22
# So many letters of a row's name have room beside the bars, and a letter in a bar takes so much.
LETTERS, LETTER = 15, 6
# The words of a line of time so near the end would be cut.
EDGE = 28
# And those of the first one begin so far left of where the bars do.
BEFORE = 24
# Nor does it have words where those of now stand.
OF_NOW = 62
# Minutes between two lines of time, of which there are so many at most.
STEPS = (1, 2, 5, 10, 30, 60, 120, 360, 720, 1440, 4320)
MOST_LINES = 13
# Each adds three elements; a page has room for so many beside its bars.
MOST_OFFERS = 100
HOUR = timedelta(hours=1)
NOT_SEEN = "another team's job"


@dataclass(frozen=True, slots=True)
class Scale:
    """From moments to units of the picture."""

    start: datetime
    end: datetime

    def x(self, at: datetime) -> float:
        """Where a moment is, held inside the picture."""
        share = (at - self.start) / (self.end - self.start)
        return round(LABEL + (WIDTH - LABEL) * min(max(share, 0.0), 1.0), 1)

    @property
    def step_min(self) -> int:
        """Minutes from line to line."""
        width = (self.end - self.start) / timedelta(minutes=1)
        return next((step for step in STEPS if width / step <= MOST_LINES), STEPS[-1])


class _Pen:
    """What all bars of one picture are drawn with; many of them begin or end at one moment.

    `offer`: the address where a row is booked from a moment on; None where nothing is offered.
    """

    def __init__(self, scale: Scale, now: datetime, offer: Callable[[Row, datetime], str] | None):
        self.scale, self.now, self.offer = scale, now, offer
        self.x = cache(scale.x)
        self.node, self.job = links_to("nodes:detail"), links_to("jobs:detail")
        zone = timezone.get_current_timezone()
        self.clock = cache(lambda at: f"{at.astimezone(zone):%-d %b %H:%M}")
        self.until = cache(lambda at: f"{self.clock(at)} {zone_word(at.astimezone(zone))}")


def draw(
    rows: list[Row],
    scale: Scale,
    now: datetime,
    offer: Callable[[Row, datetime], str] | None = None,
) -> SafeString:
    """The whole chart as one picture; a bar of one's own is a link to its job."""
    pieces: list[str] = []
    pen = _Pen(scale, now, offer if len(rows) <= MOST_OFFERS else None)
    y, pool = HEAD, ""
    for row in rows:
        if row.pool != pool:
            pool = row.pool
            pieces.append(_pool_line(pool, y))
            y += LANE
        lanes = _lanes(row.bars)
        pieces += [_bar(bar, pen, y + lane * LANE) for lane, bar in lanes]
        if pen.offer is not None and row.is_node and row.is_ready:
            pieces.append(_offer(row, pen, y))
        # Above its bars: on a phone the name goes along over them.
        pieces.append(_row_label(row, y, pen))
        y += LANE * max((lane for lane, _ in lanes), default=0) + LANE
    lines = format_html_join("", "{}", ((tick,) for tick in ticks(scale, y, now)))
    line = ""
    if scale.start <= now < scale.end:
        line = format_html(
            '<path class="now" d="M{} {}V{}"/><text class="nowt" x="{}" y="13">now {}</text>',
            scale.x(now), HEAD - 4, y, scale.x(now), f"{timezone.localtime(now):%H:%M}",
        )  # fmt: skip
    return format_html(
        '<svg class="gantt" viewBox="0 0 {} {}" role="group" aria-label="Timeline of {} rows">'
        "{}{}{}</svg>",
        WIDTH, y + 2, len(rows), lines, SafeString("".join(pieces)), line,
    )  # fmt: skip


def _lanes(bars: list[Bar]) -> list[tuple[int, Bar]]:
    """Each bar in the first lane that is free from its start on; `bars` by start."""
    taken: list[tuple[datetime, int]] = []
    free: list[int] = []
    placed = []
    for bar in bars:
        while taken and taken[0][0] <= bar.start:
            heappush(free, heappop(taken)[1])
        lane = heappop(free) if free else len(taken)
        heappush(taken, (bar.end, lane))
        placed.append((lane, bar))
    return placed


# Thousands of bars are joined as text: whatever somebody named is escaped where it is put in.
def _pool_line(pool: str, y: int) -> str:
    return (
        f'<rect class="gp" x="0" y="{y}" width="{WIDTH}" height="{LANE}"/>'
        f'<text class="gpt" x="6" y="{y + 14}">{escape(pool)}</text>'
    )


def _row_label(row: Row, y: int, pen: _Pen) -> str:
    # GPUs of a node differ at the end.
    cut = f"…{row.name[1 - LETTERS :]}" if row.node != row.name else f"{row.name[: LETTERS - 1]}…"
    short = escape(row.name if len(row.name) <= LETTERS else cut)
    if not row.node:
        return f'<text class="{"gl" if row.is_team else "gl mu"}" x="6" y="{y + 14}">{short}</text>'
    url = escape(pen.node(row.node))
    return f'<a href="{url}"><text class="gl" x="6" y="{y + 14}">{short}</text></a>'


def _bar(bar: Bar, pen: _Pen, y: int) -> str:
    left, right = pen.x(bar.start), pen.x(bar.end)
    width = max(right - left, 2)
    count = f" ×{bar.gpus}" if bar.gpus else ""
    words = bar.words
    if bar.jobs:
        count, words = "", f"{bar.jobs} job{'s' if bar.jobs > 1 else ''}"
    title = (
        f"{bar.kind}: {words or NOT_SEEN}{count}, {pen.clock(bar.start)} to {pen.until(bar.end)}"
    )
    title = escape(title)
    rect = (
        f'<rect class="gb {bar.kind}{" sum" if bar.jobs else ""}" x="{left + 0.5:g}" y="{y + 1.5}" '
        f'width="{max(width - 1, 1):g}" height="{LANE - 5}" rx="3"'
    )
    text = _fitting(f"{words}{count}", width) if words else ""
    if text:
        text = f'<text class="gt" x="{left + 5:g}" y="{y + 13}">{escape(text)}</text>'
    if bar.job:
        link = f'<a href="{pen.job(bar.job)}"><title>{title}</title>'
        return f"{link}{rect}/>{text}</a>"
    if text:
        return f"<g><title>{title}</title>{rect}/>{text}</g>"
    return f"{rect}><title>{title}</title></rect>"


def _fitting(text: str, width: float) -> str:
    """As much of it as has room in a bar so wide; nothing where that would say nothing."""
    room = int((width - 8) / LETTER)
    if len(text) <= room:
        return text
    return f"{text[: room - 1]}…" if room > 3 else ""


def _offer(row: Row, pen: _Pen, y: int) -> str:
    """A plus where the whole node is free for an hour at least, which leads to the booking."""
    at = timezone.localtime(max(pen.now, pen.scale.start)).replace(
        minute=0, second=0, microsecond=0
    )
    at += HOUR
    for bar in row.bars:
        if bar.start >= at + HOUR:
            break
        if bar.end > at:
            at = timezone.localtime(bar.end).replace(minute=0, second=0, microsecond=0) + HOUR
    if pen.offer is None or at + HOUR > pen.scale.end:
        return ""
    x = pen.x(at)
    title = escape(f"Book in pool {row.pool} from {pen.clock(at)}")
    return (
        f'<a href="{escape(pen.offer(row, at))}" class="gn" aria-label="{title}">'
        f'<title>{title}</title><path d="M{x} {y + 1}h24v{LANE - 4}h-24zm12 4v8m-4-4h8"/></a>'
    )


def ticks(scale: Scale, bottom: int, now: datetime) -> Iterator[SafeString]:
    """A line at each whole step of local time. On a phone its words go out of sight where the names
    of rows begin, which stay while the rest is scrolled."""
    step_min = scale.step_min
    at = timezone.localtime(scale.start).replace(minute=0, second=0, microsecond=0)
    while at.hour * 60 % min(step_min, 1440):
        at += HOUR
    days = step_min >= 1440
    while at < scale.end:
        x = scale.x(at)
        # Clocks may leave an hour out; the next line stands at the same place.
        if x > LABEL + 8 and at.astimezone(UTC).astimezone(at.tzinfo).hour == at.hour:
            is_midnight = (at.hour, at.minute) == (0, 0)
            words = f"{at:%a %-d %b}" if days or is_midnight else f"{at:%H:%M}"
            is_covered = scale.start <= now < scale.end and abs(x - scale.x(now)) < OF_NOW
            words = words if x < WIDTH - EDGE and not is_covered else ""
            yield format_html(
                '<path class="tk" d="M{} {}V{}"/><text class="tkt" x="{}" y="13">{}</text>',
                x, HEAD - 4, bottom, x, words,
            )  # fmt: skip
        at += timedelta(minutes=step_min)
    yield format_html('<rect class="gut" width="{}" height="{}"/>', LABEL - BEFORE, HEAD - 4)
