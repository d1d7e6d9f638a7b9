"""The timeline: nodes, GPUs or teams as rows, time from left to right, now as a line."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from portal.forms.filters import unknown_parameters
from portal.pages.access import choice, page, pool_asked, viewer_of
from portal.pages.cluster.gantt import Scale, draw
from portal.pages.cluster.moments import SPANS, Window, address_of, kept_beside, window_of
from scheduler.models import Pool
from scheduler.selectors.calendar.bookings import may_book_any
from scheduler.selectors.cluster import visible_nodes, visible_pools
from scheduler.selectors.machines.timeline import MOST_GPUS, Row, Timeline, by_team, timeline

ROWS = {"node": "node", "gpu": "GPU", "team": "team"}
PARAMETERS = (
    "span", "at", "from", "to", "pool", "node", "rows", "skip", "view", "part",
)  # fmt: skip
# What a booking offered from the picture lasts, if nothing else is said.
OFFERED = timedelta(hours=2)


@page("GET")
def cluster_timeline(request: HttpRequest) -> HttpResponseBase:
    """`?from=` and `?to=`, or `?span=` 1h to 30d and `?at=` the moment of the line (default now),
    `?rows=` gpu or team, `?node=` one of them, `?view=list` as a table."""
    viewer, now = viewer_of(request), timezone.now()
    problems: list[str] = []
    pools = {pool.name: pool for pool in visible_pools(viewer).order_by("name")}
    chosen = pool_asked(request, pools, problems, "these are all nodes")
    window = window_of(request.GET, now, problems)
    by = _choice(request, "rows", ROWS, "node", problems)
    skip = _skip(request, problems)
    node = request.GET.get("node", "").replace("\x00", "")[:63]
    found = timeline(
        viewer, start=window.start, end=window.end, now=now, pool=chosen, node=node, by=by,
        skip=skip,
    )  # fmt: skip
    missing, its_pool = "", ""
    if node and not found.gpus and not any(row.node for row in found.rows):
        its = visible_nodes(viewer).filter(name=node).first()
        missing, its_pool = _missing(problems, node, its.pool if its else None, chosen)
    found = by_team(found) if by == "team" else found
    scale = Scale(window.start, window.end)
    is_list = choice(request, "view", ("list",)) == "list"
    books = may_book_any(viewer)
    offer = _offer if books and by == "node" else None
    picture = "" if is_list else draw(found.rows, scale, now, offer)
    context = _shown(found, window, skip) | {
        "spans": SPANS,
        "keeping": kept_beside(request.GET, PARAMETERS),
        "pools": list(pools.values()),
        "chosen": chosen,
        "node": node,
        "missing": missing,
        "its_pool": its_pool,
        "picture": picture,
        "is_list": is_list,
        "lines": [(row, bar) for row in found.rows for bar in row.bars] if is_list else [],
        "by": by,
        "row_kinds": ROWS.items(),
        "booking": _booking(chosen, window, now) if books else "",
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": now,
    }
    part = "#live" if request.GET.get("part") == "live" else ""
    return render(request, f"cluster/timeline.html{part}", context)


def _missing(
    problems: list[str], node: str, its: Pool | None, chosen: Pool | None
) -> tuple[str, str]:
    """What to say in the place of a node that is not shown, and the pool that shows it; `its`: the
    pool it is in, None where there is no such node."""
    if its is None:
        problems.append(f"node: there is no node {node!r} here.")
        return "There is no such node here.", ""
    if chosen is not None and chosen != its:
        problems.append(f"node: node {node!r} is in pool {its.name}, not in pool {chosen.name}.")
        return f"It is in pool {its.name}.", its.name
    problems.append(f"node: node {node!r} has no GPU.")
    return "It has no GPU.", ""


def _shown(found: Timeline, window: Window, skip: int) -> dict[str, object]:
    """What there is, and where the rest of it is."""
    last = skip + sum(1 for row in found.rows if row.node) if found.gpus else 0
    return {
        "span": window.span,
        "window": window,
        "rows": len(found.rows),
        "bars": sum(len(row.bars) for row in found.rows),
        "summed": sum(bar.jobs for row in found.rows for bar in row.bars),
        "gpus": found.gpus,
        "first": skip + 1,
        "last": last,
        "previous": max(skip - MOST_GPUS, 0) if skip else None,
        "following": last if last < found.gpus else None,
    }


def _skip(request: HttpRequest, problems: list[str]) -> int:
    text = request.GET.get("skip", "0")
    if text.isascii() and text.isdigit() and len(text) < 7:
        return int(text)
    problems.append("skip: is a number of GPUs; these are the first ones.")
    return 0


def _choice(
    request: HttpRequest, name: str, choices: Collection[str], usual: str, problems: list[str]
) -> str:
    value = request.GET.get(name, usual)
    if value in choices:
        return value
    problems.append(f"{name}: is one of {', '.join(choices)}; this is {usual}.")
    return usual


def _booking(pool: Pool | None, window: Window, now: datetime) -> str:
    """The form that books what is shown, as far as it is still to come."""
    asked = {} if pool is None else {"pool": pool.name}
    if not window.is_now and window.end > now + OFFERED / 2:
        start = max(window.start, now + timedelta(minutes=5))
        asked |= {"from_at": address_of(start), "until_at": address_of(window.end)}
    query = f"?{urlencode(asked)}" if asked else ""
    return f"{reverse('bookings:list')}{query}#book"


def _offer(row: Row, at: datetime) -> str:
    """The form that books in the pool of a row, from a moment on."""
    span = {"from_at": address_of(at), "until_at": address_of(at + OFFERED)}
    return f"{reverse('bookings:list')}?{urlencode({'pool': row.pool, **span})}#book"
