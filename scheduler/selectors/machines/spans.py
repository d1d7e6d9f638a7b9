"""For how long what was held, however many jobs: the longest one by one, the others summed.

Of a busy month a picture could show its last days only, or everything as it looks from afar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import numpy as np
from django.db.models import (
    Count,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    TextField,
    Value,
)
from django.db.models.functions import Cast

from accounts.models import User
from accounts.statements import LookedUp, Ungrouped, WholeNumber
from scheduler.models import Allocation, Placement
from scheduler.selectors.books.seconds import EpochSecond
from scheduler.selectors.calendar.plans import may_see

# How many summed ones stand for all that are not kept.
MOST_SUMS = 500
_FINEST = 1024
# By hundreds, as Django would, asking for the next ones takes as long as some of them.
_CHUNK = 20_000
_JOB = "placement__attempt__job"
_INT = np.int64
_NUMBER = WholeNumber()
_GPUS = Count("id", output_field=_NUMBER)


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """What placements held of rows (nodes or devices, by id), a place in every column for each.

    `begin` and `until` are seconds since 1970, `until` is 0 for one that `is_running`. `team` is a
    slug only where rows are teams and the viewer may see them; `is_first`: it is the rank that
    stands for its job.
    """

    row: np.ndarray
    placement: np.ndarray
    begin: np.ndarray
    until: np.ndarray
    is_running: np.ndarray
    gpus: np.ndarray
    team: np.ndarray
    is_first: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def none(cls) -> Spans:
        """Of no placement."""
        return cls(*(np.empty(0, _INT) for _ in fields(cls)))

    def at(self, places: np.ndarray) -> Spans:
        """Those at these places, or where a flag is set."""
        return Spans(*(getattr(self, one.name)[places] for one in fields(self)))

    def seen(self, start: datetime, end: datetime) -> tuple[np.ndarray, np.ndarray]:
        """From when to when each is seen within [start, end)."""
        first, last = int(start.timestamp()), int(end.timestamp())
        until = np.where(self.is_running, last, np.minimum(self.until, last))
        return np.maximum(self.begin, first), until


@dataclass(slots=True)
class Sum:
    """So many of a row (of nodes or devices) and team as one, from the first begin to the last
    end."""

    row: int
    team: str
    jobs: int
    gpus: int
    begin: int
    until: int
    is_running: bool


def spans_between(
    viewer: User, places: QuerySet[Allocation], start: datetime, end: datetime, by: str
) -> Spans:
    """All that meet [start, end), in one statement; `by`: gpu, node or team."""
    if by == "node":
        return _of_nodes(places, start, end)
    met = places.filter(released_at__isnull=True).values("pk")
    # Not by OR, for which SQLite reads the whole table, years of it.
    met = met.union(places.filter(released_at__gt=start).values("pk"), all=True)
    rows = places.filter(pk__in=met, acquired_at__lt=end).order_by()
    keys = ["device" if by == "gpu" else "placement__node", "placement"]
    if by == "team":
        rows = rows.annotate(seen_=may_see(viewer, f"{_JOB}__project"))
        keys += ["seen_", f"{_JOB}__project__team__slug", "placement__rank"]
    begin_ = EpochSecond(Min("acquired_at"), output_field=_NUMBER)
    until_ = EpochSecond(Max("released_at"), output_field=_NUMBER)
    left = Count("id", filter=Q(released_at__isnull=True), output_field=_NUMBER)
    found = list(
        rows.values(*keys)
        .annotate(begin_=begin_, gpus_=_GPUS, until_=until_, left_=left)
        .values_list("begin_", "until_", "gpus_", "left_", *keys)
    )
    if not found:
        return Spans.none()
    begin, until, gpus, lefts, row, placement, *whose = zip(*found, strict=True)
    may, slugs, ranks = whose or ([False] * len(row), [""] * len(row), [0] * len(row))
    is_running = np.array(lefts, _INT) > 0
    return Spans(
        row=np.array(row, _INT),
        placement=np.array(placement, _INT),
        begin=np.array(begin, _INT),
        until=np.where(is_running, 0, np.array([one or 0 for one in until], _INT)),
        is_running=is_running,
        gpus=np.array(gpus, _INT),
        team=np.array(
            [s if is_seen else "" for is_seen, s in zip(may, slugs, strict=True)], object
        ),
        is_first=np.array(ranks, _INT) == 0,
    )


class _Second(EpochSecond):
    """As near as a picture needs it: of a moment less than half a millisecond before a second,
    SQLite says that one. Without cutting the fraction off each of tens of thousands."""

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As SQLite says it."""
        return self.as_sql(compiler, connection, template="UNIXEPOCH(%(expressions)s)", **context)


class _ReleasedAt(Ungrouped, _Second):
    """Of a moment that is grouped by."""


def _of_nodes(places: QuerySet[Allocation], start: datetime, end: datetime) -> Spans:
    """The same by node, of which there are most: devices that a placement gave back at one moment
    are together in an index that says all of them, and its node is looked up once."""
    node = Placement.objects.filter(pk=OuterRef("placement_id")).order_by().values("node")
    past = places.filter(released_at__gt=start, acquired_at__lt=end).order_by()
    now = places.filter(released_at__isnull=True, acquired_at__lt=end).order_by()
    released = _ReleasedAt(F("released_at"), output_field=_NUMBER)
    begin_ = _Second(Min("acquired_at"), output_field=_NUMBER)
    parts = (
        rows.values("released_at", "placement_id")
        .annotate(begin_=begin_, gpus_=_GPUS, until_=until, row_=LookedUp(node))
        .values_list("placement_id", "begin_", "until_", "gpus_", "row_")
        for rows, until in ((past, released), (now, Value(0, _NUMBER)))
    )
    first, second = parts
    found = list(first.union(second, all=True).iterator(_CHUNK))
    if not found:
        return Spans.none()
    placement, begin, until, gpus, row = (
        np.array(column, _INT) for column in zip(*found, strict=True)
    )
    # Few are given back at more than one moment.
    order = np.argsort(placement, kind="stable")
    edges = np.flatnonzero(np.diff(placement[order], prepend=-1))
    is_running = np.logical_or.reduceat(until[order] == 0, edges)
    return Spans(
        row=row[order][edges],
        placement=placement[order][edges],
        begin=np.minimum.reduceat(begin[order], edges),
        until=np.where(is_running, 0, np.maximum.reduceat(until[order], edges)),
        is_running=is_running,
        gpus=np.add.reduceat(gpus[order], edges),
        team=np.full(len(edges), "", object),
        is_first=np.ones(len(edges), np.bool_),
    )


def longest(spans: Spans, most: int, start: datetime, end: datetime) -> tuple[Spans, Spans]:
    """Those of which most is seen within [start, end), and the others."""
    if len(spans) <= most:
        return spans, Spans.none()
    since, until = spans.seen(start, end)
    order = np.argsort(since - until, kind="stable")
    return spans.at(order[:most]), spans.at(order[most:])


def summed(spans: Spans, start: datetime, end: datetime) -> list[Sum]:
    """By row and team, as finely as so many sums can be: in equal parts of [start, end), by the
    middle of what is seen of each."""
    if not len(spans):
        return []
    since, until = spans.seen(start, end)
    first = int(start.timestamp())
    width = max(int(end.timestamp()) - first, 1)
    part = ((since + until) // 2 - first) * _FINEST // width
    kinds, kind = _kinds(spans)
    # One number for kind and part, so that equal ones are found by sorting numbers.
    keys, at = np.unique(kind * 2 * _FINEST + part, return_inverse=True)
    while len(keys) > MOST_SUMS and (keys % (2 * _FINEST)).any():
        parts = keys % (2 * _FINEST)
        keys, coarser = np.unique(keys - parts + parts // 2, return_inverse=True)
        at = coarser[at]
    order = np.argsort(at, kind="stable")
    edges = np.flatnonzero(np.diff(at[order], prepend=-1))
    ends = np.where(spans.is_running, int(end.timestamp()), spans.until)
    columns = (
        np.add.reduceat(spans.is_first[order].astype(_INT), edges),
        np.add.reduceat(spans.gpus[order], edges),
        np.minimum.reduceat(spans.begin[order], edges),
        np.maximum.reduceat(ends[order], edges),
    )
    its_kinds = [kinds[one] for one in (keys // (2 * _FINEST)).tolist()]
    return [
        Sum(row, team, jobs, gpus, begin, until, is_running)
        for (row, team, is_running), jobs, gpus, begin, until in zip(
            its_kinds, *(one.tolist() for one in columns), strict=True
        )
    ]


def _kinds(spans: Spans) -> tuple[list[tuple[int, str, bool]], np.ndarray]:
    """Every row, team and whether it runs that there is, and which of them each span is of."""
    teams: dict[str, int] = {}
    team = np.array([teams.setdefault(slug, len(teams)) for slug in spans.team.tolist()], _INT)
    code = (spans.row * len(teams) + team) * 2 + spans.is_running
    codes, kind = np.unique(code, return_inverse=True)
    slugs = list(teams)
    return [
        (one // 2 // len(slugs), slugs[one // 2 % len(slugs)], bool(one % 2))
        for one in codes.tolist()
    ], kind


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
