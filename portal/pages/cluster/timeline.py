"""The timeline: nodes as rows, time from left to right, now as a line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from heapq import heappop, heappush
from html import escape

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.reports.links import links_to
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.machines.timeline import Bar, Row, by_team, timeline

WIDTH, LABEL, LANE, HEAD = 1200, 110, 20, 22
# The words of a line of time so near the end would be cut.
EDGE = 28
# Nor does it have words where those of now stand.
OF_NOW = 62
SPANS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
# Minutes between two lines of time.
STEPS = {"1h": 10, "6h": 60, "24h": 120, "7d": 1440, "30d": 4320}
ROWS = ("node", "team")
NOT_SEEN = escape("another team's job")
# So much of the picture is past, the rest is to come.
PAST_SHARE = 0.4
FARTHEST = timedelta(days=730)
PARAMETERS = ("span", "at", "pool", "rows", "view", "part")


@dataclass(frozen=True, slots=True)
class Scale:
    """From moments to units of the picture."""

    start: datetime
    end: datetime

    def x(self, at: datetime) -> float:
        """Where a moment is, held inside the picture."""
        share = (at - self.start) / (self.end - self.start)
        return round(LABEL + (WIDTH - LABEL) * min(max(share, 0.0), 1.0), 1)


@page("GET")
def cluster_timeline(request: HttpRequest) -> HttpResponseBase:
    """`?span=` 1h to 30d, `?at=` the moment of the line (default now), `?rows=team`, `?view=list`
    as a table."""
    viewer, now = viewer_of(request), timezone.now()
    problems = []
    pools = list(visible_pools(viewer).order_by("name"))
    asked = request.GET.get("pool", "")
    chosen = next((pool for pool in pools if pool.name == asked), None)
    if asked and chosen is None:
        problems.append(f"pool: there is no pool {asked[:63]!r}; these are all nodes.")
    span = _choice(request, "span", SPANS, "24h", problems)
    rows = _choice(request, "rows", ROWS, ROWS[0], problems)
    at = now
    if text := request.GET.get("at", ""):
        try:
            at = _read_moment(text, now)
        except ValueError as error:
            problems.append(f"at: {error}; this is now.")
    width = SPANS[span]
    scale = Scale(at - PAST_SHARE * width, at + (1 - PAST_SHARE) * width)
    found = timeline(viewer, start=scale.start, end=scale.end, now=now, pool=chosen)
    found = by_team(found) if rows == "team" else found
    is_list = request.GET.get("view") == "list"
    context = {
        "spans": SPANS,
        "span": span,
        "pools": pools,
        "chosen": chosen,
        "picture": "" if is_list else draw(found.rows, scale, now, STEPS[span]),
        "is_list": is_list,
        "lines": [(row, bar) for row in found.rows for bar in row.bars] if is_list else [],
        "rows": len(found.rows),
        "by": rows,
        "row_kinds": ROWS,
        "bars": sum(len(row.bars) for row in found.rows),
        "is_cut": found.is_cut,
        "earlier": f"{at - width / 2:%Y-%m-%dT%H:%MZ}",
        "later": f"{at + width / 2:%Y-%m-%dT%H:%MZ}",
        "is_now": at == now,
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": now,
        "scale": scale,
    }
    return render(request, "cluster/timeline.html", context)


def _choice(
    request: HttpRequest, name: str, choices: Collection[str], usual: str, problems: list[str]
) -> str:
    value = request.GET.get(name, usual)
    if value in choices:
        return value
    problems.append(f"{name}: is one of {', '.join(choices)}; this is {usual}.")
    return usual


def _read_moment(text: str, now: datetime) -> datetime:
    try:
        at = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise ValueError("is no moment such as 2026-11-20T14:00Z") from None
    at = at if at.tzinfo else timezone.make_aware(at)
    if abs(at - now) > FARTHEST:
        raise ValueError("lies more than two years away")
    return at


def draw(rows: list[Row], scale: Scale, now: datetime, step_min: int) -> SafeString:
    """The whole chart as one picture; a bar of one's own is a link to its job."""
    pieces: list[str] = []
    pen = _Pen(scale, links_to("nodes:detail"), links_to("jobs:detail"))
    y, pool = HEAD, ""
    for row in rows:
        if row.pool != pool:
            pool = row.pool
            pieces.append(_pool_line(pool, y))
            y += LANE
        lanes = _lanes(row.bars)
        pieces.append(_row_label(row, y, pen))
        pieces += [_bar(bar, pen, y + lane * LANE) for lane, bar in lanes]
        y += LANE * max((lane for lane, _ in lanes), default=0) + LANE
    ticks = format_html_join("", "{}", ((tick,) for tick in _ticks(scale, step_min, y, now)))
    line = ""
    if scale.start <= now < scale.end:
        line = format_html(
            '<path class="now" d="M{} {}V{}"/><text class="nowt" x="{}" y="13">now {}</text>',
            scale.x(now), HEAD - 4, y, scale.x(now), f"{timezone.localtime(now):%H:%M}",
        )  # fmt: skip
    return format_html(
        '<svg class="gantt" viewBox="0 0 {} {}" role="group" aria-label="Timeline of {} rows">'
        "{}{}{}</svg>",
        WIDTH, y + 2, len(rows), ticks, SafeString("".join(pieces)), line,
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


class _Pen:
    """What all bars of one picture are drawn with; many of them begin or end at one moment."""

    def __init__(
        self, scale: Scale, node: Callable[[object], str], job: Callable[[object], str]
    ) -> None:
        self.x, self.node, self.job = cache(scale.x), node, job
        zone = timezone.get_current_timezone()
        self.clock = cache(lambda at: f"{at.astimezone(zone):%d %b %H:%M}")


# Thousands of bars are joined as text: whatever somebody named is escaped where it is put in.
def _pool_line(pool: str, y: int) -> str:
    return (
        f'<rect class="gp" x="0" y="{y}" width="{WIDTH}" height="{LANE}"/>'
        f'<text class="gpt" x="6" y="{y + 14}">{escape(pool)}</text>'
    )


def _row_label(row: Row, y: int, pen: _Pen) -> str:
    short = escape(row.name if len(row.name) <= 15 else f"{row.name[:14]}…")
    if not row.is_node:
        return f'<text class="{"gl" if row.is_team else "gl mu"}" x="6" y="{y + 14}">{short}</text>'
    url = escape(pen.node(row.name))
    return f'<a href="{url}"><text class="gl" x="6" y="{y + 14}">{short}</text></a>'


def _bar(bar: Bar, pen: _Pen, y: int) -> str:
    left, right = pen.x(bar.start), pen.x(bar.end)
    width = max(right - left, 2)
    count = f" ×{bar.gpus}" if bar.gpus else ""
    span = f"{pen.clock(bar.start)} to {pen.clock(bar.end)}"
    words = escape(bar.words)
    title = f"{bar.kind}: {words or NOT_SEEN}{count}, {span}"
    text = f"{words}{count}" if width > 30 and words else ""
    drawn = (
        f'<svg x="{left}" y="{y}" width="{width}" height="{LANE - 2}"><rect class="gb {bar.kind}" '
        f'x=".5" y="1.5" width="{max(width - 1, 1)}" height="{LANE - 5}" rx="3"/>'
        f'<text class="gt" x="5" y="13">{text}</text><title>{title}</title></svg>'
    )
    if not bar.job:
        return drawn
    return f'<a href="{pen.job(bar.job)}" aria-label="{title}">{drawn}</a>'


def _ticks(scale: Scale, step_min: int, bottom: int, now: datetime) -> Iterator[SafeString]:
    """A line at each whole step of local time."""
    at = timezone.localtime(scale.start).replace(minute=0, second=0, microsecond=0)
    while at.hour * 60 % min(step_min, 1440):
        at += timedelta(hours=1)
    days = step_min >= 1440
    while at < scale.end:
        x = scale.x(at)
        if x > LABEL + 8:
            is_midnight = (at.hour, at.minute) == (0, 0)
            words = f"{at:%a %d %b}" if days or is_midnight else f"{at:%H:%M}"
            is_covered = scale.start <= now < scale.end and abs(x - scale.x(now)) < OF_NOW
            words = words if x < WIDTH - EDGE and not is_covered else ""
            yield format_html(
                '<path class="tk" d="M{} {}V{}"/><text class="tkt" x="{}" y="13">{}</text>',
                x, HEAD - 4, bottom, x, words,
            )  # fmt: skip
        at += timedelta(minutes=step_min)
