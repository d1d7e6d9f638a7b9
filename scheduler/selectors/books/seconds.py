"""Device seconds by UTC day. The database adds up what lies within a day; the rest is cut here."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from django.db.models import BigIntegerField, Case, F, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce

from scheduler.ledger.rating import DAY_S, cut
from scheduler.models import DeviceSegment

_CHUNK = 20_000
_DAY = F("start_s") - F("start_s") % DAY_S


def within(start_s: int, end_s: int) -> QuerySet[DeviceSegment]:
    """Segments that reach into a window."""
    return DeviceSegment.objects.filter(
        Q(end_s__gt=start_s) | Q(end_s__isnull=True), start_s__lt=end_s
    ).order_by()


def by_day(
    segments: QuerySet[DeviceSegment], start_s: int, end_s: int, *keys: str
) -> dict[tuple[Any, ...], int]:
    """Seconds of these segments in a window by (day's first second, *keys); two statements."""
    found: dict[tuple[Any, ...], int] = {}
    timed = segments.annotate(day=_DAY)
    is_whole = Q(start_s__gte=start_s, end_s__lte=end_s) & Q(end_s__lte=F("day") + DAY_S)
    sums = (
        timed.filter(is_whole)
        .values_list("day", *keys)
        .annotate(seconds=Sum(F("end_s") - F("start_s")))
    )
    for *key, seconds in sums:
        found[tuple(key)] = found.get(tuple(key), 0) + seconds
    rest = timed.filter(Q(end_s__isnull=True) | ~is_whole)
    for begin, end, *key in rest.values_list("start_s", "end_s", *keys).iterator(_CHUNK):
        until_s = end_s if end is None else min(end, end_s)
        for first, until in cut(max(begin, start_s), until_s, ()):
            day = (first - first % DAY_S, *key)
            found[day] = found.get(day, 0) + until - first
    return found


def added_up(
    segments: QuerySet[DeviceSegment], start_s: int, end_s: int, *keys: str
) -> dict[tuple[Any, ...], int]:
    """Seconds of these segments in a window by keys, in one statement of the database."""
    begin = Case(
        When(start_s__lt=start_s, then=Value(start_s)),
        default=F("start_s"),
        output_field=BigIntegerField(),
    )
    until = Case(
        When(end_s__lt=end_s, then=F("end_s")),
        default=Value(end_s),
        output_field=BigIntegerField(),
    )
    rows = segments.values(*keys).annotate(seconds=Coalesce(Sum(until - begin), 0))
    return {tuple(row[key] for key in keys): row["seconds"] for row in rows}


def day_of(day_s: int) -> date:
    """The UTC day that begins with a second."""
    return datetime.fromtimestamp(day_s, UTC).date()
