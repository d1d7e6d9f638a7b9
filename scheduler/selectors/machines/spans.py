"""For how long what was held, however many jobs: the longest one by one, the others summed.

Of a busy month a picture could show its last days only, or everything as it looks from afar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, TextField
from django.db.models.functions import Cast

from accounts.models import User
from scheduler.models import Allocation, Placement
from scheduler.selectors.books.seconds import EpochSecond
from scheduler.selectors.calendar.plans import may_see

# How many summed ones stand for all that are not kept.
MOST_SUMS = 500
_FINEST = 1024
_JOB = "placement__attempt__job"


@dataclass(slots=True)
class Span:
    """What a placement held of a row (a node or a device, by id), in seconds since 1970.

    `until` is None while it holds. `team` is a slug only where rows are teams and the viewer may
    see them; `is_first`: it is the rank that stands for its job.
    """

    row: int
    placement: int
    begin: int
    until: int | None
    gpus: int
    team: str = ""
    is_first: bool = True


@dataclass(slots=True)
class Sum:
    """So many of a row as one, from the first begin to the last end."""

    jobs: int
    gpus: int
    begin: int
    until: int
    is_running: bool

    def take(self, jobs: int, gpus: int, begin: int, until: int) -> None:
        """So many more of its row."""
        self.jobs += jobs
        self.gpus += gpus
        if begin < self.begin:
            self.begin = begin
        if until > self.until:
            self.until = until


def spans_between(
    viewer: User, places: QuerySet[Allocation], start: datetime, end: datetime, by: str
) -> list[Span]:
    """All that meet [start, end), in one statement; `by`: gpu, node or team."""
    met = places.filter(released_at__isnull=True).values("pk")
    # Not by OR, for which SQLite reads the whole table, years of it.
    met = met.union(places.filter(released_at__gt=start).values("pk"), all=True)
    rows = places.filter(pk__in=met, acquired_at__lt=end).order_by()
    keys = ["device" if by == "gpu" else "placement__node", "placement"]
    if by == "team":
        rows = rows.annotate(seen_=may_see(viewer, f"{_JOB}__project"))
        keys += ["seen_", f"{_JOB}__project__team__slug", "placement__rank"]
    found = (
        rows.values(*keys)
        .annotate(
            begin_=EpochSecond(Min("acquired_at")),
            until_=EpochSecond(Max("released_at")),
            gpus_=Count("id"),
            left_=Count("id", filter=Q(released_at__isnull=True)),
        )
        .values_list("begin_", "until_", "gpus_", "left_", *keys)
    )
    spans = []
    for begin, until, gpus, left, row, placement, *whose in found:
        span = Span(row, placement, begin, None if left else until, gpus)
        if whose:
            span.team, span.is_first = (whose[1] if whose[0] else ""), whose[2] == 0
        spans.append(span)
    return spans


def longest(
    spans: list[Span], most: int, start: datetime, end: datetime
) -> tuple[list[Span], list[Span]]:
    """Those of which most is seen within [start, end), and the others."""
    if len(spans) <= most:
        return spans, []
    first, last = int(start.timestamp()), int(end.timestamp())

    def seen(span: Span) -> int:
        until = last if span.until is None else min(span.until, last)
        return max(span.begin, first) - until

    spans = sorted(spans, key=seen)
    return spans[:most], spans[most:]


def summed(
    spans: Iterable[Span], row_of: Callable[[Span], Any], start: datetime, end: datetime
) -> dict[Any, list[Sum]]:
    """By row, as finely as so many sums can be: in equal parts of [start, end), by the middle of
    what is seen of each."""
    first, last = int(start.timestamp()), int(end.timestamp())
    width = max(last - first, 1)
    parts: dict[tuple[Any, bool, int], Sum] = {}
    for span in spans:
        is_running = span.until is None
        until = last if span.until is None else span.until
        middle = (max(span.begin, first) + min(until, last)) // 2
        key = (row_of(span), is_running, (middle - first) * _FINEST // width)
        its = parts.get(key)
        if its is None:
            parts[key] = Sum(int(span.is_first), span.gpus, span.begin, until, is_running)
        else:
            its.take(int(span.is_first), span.gpus, span.begin, until)
    while len(parts) > MOST_SUMS and any(part for _, _, part in parts):
        coarser: dict[tuple[Any, bool, int], Sum] = {}
        for (row, is_running, part), one in parts.items():
            its = coarser.setdefault((row, is_running, part // 2), one)
            if its is not one:
                its.take(one.jobs, one.gpus, one.begin, one.until)
        parts = coarser
    found: dict[Any, list[Sum]] = {}
    for (row, _, _), one in parts.items():
        found.setdefault(row, []).append(one)
    return found


def whose_jobs(viewer: User, placements: Iterable[int]) -> Mapping[int, tuple[Any, ...]]:
    """By placement: number, name, team's slug, time limit and start (a text) of its job, and
    whether the viewer may see it; in one statement."""
    job = "attempt__job"
    rows = (
        Placement.objects.filter(pk__in=set(placements))
        .order_by()
        .annotate(
            seen_=may_see(viewer, f"{job}__project"),
            started_=Cast(F("attempt__started_at"), TextField()),
        )
    )
    fields = (job, f"{job}__name", f"{job}__project__team__slug", f"{job}__time_limit_s")
    return {pk: told for pk, *told in rows.values_list("pk", *fields, "started_", "seen_")}
