"""Device seconds by UTC day. The database adds up what lies within a day; the rest is cut here."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from django.db.models import BigIntegerField, Case, F, Func, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Cast, Coalesce

from scheduler.ledger.rating import DAY_S, cut
from scheduler.models import DeviceSegment

_CHUNK = 20_000
_DAY = F("start_s") - F("start_s") % DAY_S
# Typed, as PostgreSQL wants both halves of a union alike.
_NONE = Cast(Value(None), BigIntegerField())


def within(start_s: int, end_s: int) -> QuerySet[DeviceSegment]:
    """Segments that reach into a window."""
    return DeviceSegment.objects.filter(
        Q(end_s__gt=start_s) | Q(end_s__isnull=True), start_s__lt=end_s
    ).order_by()


def by_day(
    segments: QuerySet[DeviceSegment], start_s: int, end_s: int, *keys: str
) -> dict[tuple[Any, ...], int]:
    """Seconds of these segments in a window by (day's first second, *keys); one statement.

    It adds up the segments that lie within a day and gives those that do not as they are.
    """
    found: dict[tuple[Any, ...], int] = {}
    is_whole = Q(start_s__gte=start_s, end_s__lte=end_s) & Q(end_s__lte=_DAY + DAY_S)
    whole = (
        segments.filter(is_whole)
        .annotate(first_=_DAY)
        .values("first_", *keys)
        .annotate(until_=_NONE, seconds_=Sum(F("end_s") - F("start_s")))
    )
    rest = segments.filter(Q(end_s__isnull=True) | ~is_whole).annotate(
        first_=F("start_s"), until_=F("end_s"), seconds_=_NONE
    )
    names = ("first_", *keys, "until_", "seconds_")
    rows = whole.values_list(*names).union(rest.values_list(*names), all=True)
    for first, *key, until, seconds in rows.iterator(_CHUNK):
        if seconds is not None:
            found[first, *key] = found.get((first, *key), 0) + seconds
            continue
        last = end_s if until is None else min(until, end_s)
        for begin, end in cut(max(first, start_s), last, ()):
            day = (begin - begin % DAY_S, *key)
            found[day] = found.get(day, 0) + end - begin
    return found


def seconds_within(start_s: int, end_s: int) -> Any:
    """The seconds of a segment that lie in a window, as an expression of the database."""
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
    return until - begin


class EpochSecond(Func):
    """The whole second since 1970 of a moment, floored."""

    function = "FLOOR"
    arity = 1
    output_field = BigIntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As PostgreSQL says it."""
        template = "FLOOR(EXTRACT(EPOCH FROM %(expressions)s))::bigint"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As SQLite says it, where moments are texts in UTC."""
        template = "CAST(strftime('%%%%s', %(expressions)s) AS INTEGER)"
        return self.as_sql(compiler, connection, template=template, **context)


def added_up(
    segments: QuerySet[DeviceSegment], start_s: int, end_s: int, *keys: str
) -> dict[tuple[Any, ...], int]:
    """Seconds of these segments in a window by keys, in one statement of the database."""
    span = Sum(seconds_within(start_s, end_s))
    rows = segments.values(*keys).annotate(seconds=Coalesce(span, 0))
    return {tuple(row[key] for key in keys): row["seconds"] for row in rows}


def day_of(day_s: int) -> date:
    """The UTC day that begins with a second."""
    return datetime.fromtimestamp(day_s, UTC).date()
