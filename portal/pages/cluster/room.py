"""How much is free over time, by pool: what was, and what comes free if nothing new starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.forms.filters import unknown_parameters
from portal.pages.access import choice, page, pool_asked, viewer_of
from portal.pages.cluster.gantt import HEAD, LABEL, WIDTH, Scale, ticks
from portal.pages.cluster.moments import SPANS, kept_beside, window_of
from portal.pages.listing.leaves import leaf_of
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.freeing.room import Point, PoolRoom, room_over_time

PARAMETERS = ("span", "at", "from", "to", "pool", "of", "need", "view", "page", "part")
_TOP, _HIGH, _APART = 28, 96, 4
_POOLS_A_PAGE = 12


@dataclass(frozen=True, slots=True)
class Shown:
    """A pool's picture with what it says in words; `rows`: the same as a table, at round moments:
    when, free (None ahead of now), at the latest and likely (None before)."""

    room: PoolRoom
    picture: SafeString
    rows: list[tuple[datetime, int | None, int | None, int | None]]
    now: int | None
    least: int | None
    most: int | None
    latest: int | None
    likely: int | None
    met_likely: datetime | None
    met_latest: datetime | None


@page("GET")
def cluster_room(request: HttpRequest) -> HttpResponseBase:
    """`?of=nodes` counts nodes that are free as a whole, `?need=` draws a line and says from when
    on so many are free together; times as on the timeline; `?view=list` as tables. `?part=job`: of
    one pool, for the page of a job that waits."""
    viewer, now = viewer_of(request), timezone.now()
    problems: list[str] = []
    pools = {pool.name: pool for pool in visible_pools(viewer).order_by("name")}
    chosen = pool_asked(request, pools, problems, "these are all of them")
    window = window_of(request.GET, now, problems)
    is_nodes = choice(request, "of", ("nodes",)) == "nodes"
    need = _need(request, problems)
    found = room_over_time(
        viewer, start=window.start, end=window.end, now=now, pool=chosen, whole_nodes=is_nodes,
        is_exact=bool(need),
    )  # fmt: skip
    leaf = leaf_of(request, found, "page", size=_POOLS_A_PAGE)
    scale = Scale(window.start, window.end)
    context = {
        "leaf": leaf,
        "shown": [_shown(room, scale, now, need) for room in leaf],
        "what": "whole nodes" if is_nodes else "GPUs",
        "is_nodes": is_nodes,
        "need": need,
        "window": window,
        "keeping": kept_beside(request.GET, PARAMETERS),
        "spans": SPANS,
        "pools": list(pools.values()),
        "chosen": chosen,
        "is_list": choice(request, "view", ("list",)) == "list",
        "has_past": window.start < now,
        "has_future": window.end > now,
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": now,
    }
    part = request.GET.get("part", "")
    if part == "job" and chosen:
        return render(request, "cluster/_room_of_job.html", {**context, "is_of_job": True})
    return render(request, f"cluster/room.html{'#live' if part == 'live' else ''}", context)


def _need(request: HttpRequest, problems: list[str]) -> int:
    text = request.GET.get("need", "")
    if text.isascii() and text.isdigit() and len(text) <= 6 and int(text):
        return int(text)
    if text:
        problems.append("need: is how many have to be free together; no line is drawn.")
    return 0


def _shown(room: PoolRoom, scale: Scale, now: datetime, need: int) -> Shown:
    before = [count for _, count in room.past]
    return Shown(
        room,
        draw_room(room, scale, now, need),
        list(_rows(room, scale)),
        room.latest[0][1] if room.latest else None,
        min(before, default=None),
        max(before, default=None),
        room.latest[-1][1] if room.latest else None,
        room.likely[-1][1] if room.likely else None,
        _met(room.likely, need),
        _met(room.latest, need),
    )


def _met(points: Sequence[Point], need: int) -> datetime | None:
    """From when on so many are free; None where they are not, or none is asked for."""
    return next((at for at, count in points if need and count >= need), None)


def _rows(
    room: PoolRoom, scale: Scale
) -> Iterator[tuple[datetime, int | None, int | None, int | None]]:
    """At the moments that the picture has lines for, and now."""
    step = timedelta(minutes=scale.step_min)
    due = scale.start
    for at, count in room.past:
        if at >= due:
            yield at, count, None, None
            due += step * (1 + (at - due) // step)
    due = scale.start
    for (at, latest), (_, likely) in zip(room.latest, room.likely, strict=True):
        if at >= due:
            yield at, None, latest, likely
            due = at + step


def draw_room(room: PoolRoom, scale: Scale, now: datetime, need: int = 0) -> SafeString:
    """What was as an area, what comes at the latest as a paler one, what is likely as a line."""
    bottom, top = _TOP + _HIGH, max(room.total, need, 1)

    def y(count: int) -> float:
        return round(bottom - _HIGH * count / top, 1)

    # What is needed says its number itself.
    marks = [mark for mark in sorted({0, top // 2, top}) if not need or mark != need]
    grid = format_html_join(
        "",
        '<path class="tk" d="M{} {}H{}"/>',
        ((LABEL, y(mark), WIDTH) for mark in marks),
    )
    ends = [*room.past, *room.latest][:1]
    words = f"{room.total} in all" + (f", {ends[0][1]} free at first" if ends else "")
    now_line, need_line = SafeString(""), SafeString("")
    if scale.start <= now < scale.end:
        now_line = format_html(
            '<path class="now" d="M{} 18V{}"/><text class="nowt" x="{}" y="13">now {}</text>',
            scale.x(now), bottom, scale.x(now), f"{timezone.localtime(now):%H:%M}",
        )  # fmt: skip
    if need:
        need_line = format_html('<path class="rm-need" d="M{} {}H{}"/>', LABEL, y(need), WIDTH)
    joined = [*room.past, *room.latest[:1]]
    return format_html(
        '<svg class="gantt" viewBox="0 0 {} {}" role="img" aria-label="Free in {}: {}">'
        "{}{}{}{}{}{}{}{}</svg>",
        WIDTH, bottom + _APART, room.pool, words, grid,
        format_html_join("", "{}", ((tick,) for tick in ticks(scale, bottom, now))),
        _area("rm-past", joined, scale, y), _area("rm-late", room.latest, scale, y),
        _line("rm-soon", room.likely, scale, y), need_line, now_line, _counts(marks, need, y),
    )  # fmt: skip


def _counts(marks: Sequence[int], need: int, y: Callable[[int], float]) -> SafeString:
    """Above what is drawn, on ground of their own: on a phone they stay while that is scrolled."""
    needs = ""
    if need:
        needs = format_html(
            '<text class="gl" x="6" y="{}">needs {}</text>', y(need) + 4, f"{need:,}"
        )
    return format_html(
        '<rect class="gut" x="0" y="{}" width="{}" height="{}"/>{}{}',
        HEAD - _APART, LABEL - _APART, _TOP + _HIGH + 2 * _APART - HEAD,
        format_html_join(
            "",
            '<text class="gl mu" x="{}" y="{}">{}</text>',
            ((LABEL - 34, y(mark) + 4, f"{mark:,}") for mark in marks),
        ),
        needs,
    )  # fmt: skip


def _way(points: Sequence[Point], scale: Scale, y: Callable[[int], float]) -> str:
    """Along the steps, with a corner only where the count changes."""
    way, last = f"M{scale.x(points[0][0]):g} {y(points[0][1]):g}", points[0][1]
    for at, count in points[1:]:
        if count != last:
            way += f"H{scale.x(at):g}V{y(count):g}"
            last = count
    return f"{way}H{scale.x(points[-1][0]):g}"


def _area(css: str, points: Sequence[Point], scale: Scale, y: Callable[[int], float]) -> SafeString:
    if not points:
        return SafeString("")
    way, bottom = _way(points, scale, y), _TOP + _HIGH
    return format_html(
        '<path class="{}" d="{}V{}H{}z"/>', css, way, bottom, f"{scale.x(points[0][0]):g}"
    )


def _line(css: str, points: Sequence[Point], scale: Scale, y: Callable[[int], float]) -> SafeString:
    if not points:
        return SafeString("")
    return format_html('<path class="{}" d="{}"/>', css, _way(points, scale, y))
