"""Device seconds by UTC day. The database adds up what lies within a day; the rest is cut here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from django.db.models import (
    Avg,
    BigIntegerField,
    Case,
    Count,
    F,
    Func,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce

from accounts.statements import Null, WholeNumber
from scheduler.conf import SchedulerConf
from scheduler.ledger.rating import DAY_S, cut
from scheduler.models import DeviceHour, DeviceSample, DeviceSegment
from scheduler.models.telemetry import ALL_MINUTES, KNOWN_USE

_CHUNK = 20_000
_HOUR_S = 3600
_DAY = F("start_s") - F("start_s") % DAY_S
# Typed, as PostgreSQL wants both halves of a union alike.
_NONE = Null(BigIntegerField())


# Half-open pieces of time that do not touch, in order; whole UTC days, the last one perhaps cut.
Windows = tuple[tuple[int, int], ...]


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
    is_whole, day_s = lies_in_days(start_s, end_s)
    whole = (
        segments.filter(is_whole)
        .annotate(first_=day_s)
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


def lies_in_days(start_s: int, end_s: int) -> tuple[Q, Any]:
    """Which segments of a window lie within one UTC day, and the first second of that day."""
    return Q(start_s__gte=start_s, end_s__lte=end_s) & Q(end_s__lte=_DAY + DAY_S), _DAY


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
    output_field = WholeNumber()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As PostgreSQL says it."""
        template = "FLOOR(EXTRACT(EPOCH FROM %(expressions)s))::bigint"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As SQLite says it, where moments are texts in UTC. It rounds to milliseconds, so it is
        not given the fraction."""
        template = "UNIXEPOCH(SUBSTR(%(expressions)s, 1, 19))"
        return self.as_sql(compiler, connection, template=template, **context)


def idle_spans(
    samples: QuerySet[DeviceSample], conf: SchedulerConf, span_s: int | None = None
) -> QuerySet[Any]:
    """Readings that tell the use by device, attempt and span (`span_s`, its first second):
    `all_count` of them, `idle_count` where their mean is below the threshold, else 0. Spans end
    with hours.

    `span_s`: all of these readings are known to be of that span, which takes half the time."""
    number = WholeNumber()
    second = EpochSecond("at")
    into = second % Value(_HOUR_S, number) % Value(conf.idle_span_s, number)
    return (
        samples.filter(KNOWN_USE)
        .order_by()
        .annotate(span_s=second - into if span_s is None else Value(span_s, number))
        .values("device_id", "attempt_id", "span_s")
        .annotate(all_count=Count("pk", output_field=number), mean_percent=Avg("gpu_percent"))
        .annotate(
            idle_count=Case(
                When(mean_percent__lt=float(conf.idle_below_percent), then=F("all_count")),
                default=Value(0),
                output_field=number,
            )
        )
    )


@dataclass(slots=True)
class Readings:
    """Of an attempt: how many, how many of them in idle spans, and its idle time by device as
    pieces of (first second, seconds)."""

    readings: int = 0
    idle: int = 0
    pieces: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def longest_s(self) -> int:
        """The longest idle time of one of its devices without a break, in seconds."""
        longest = 0
        for pieces in self.pieces.values():
            began, ended = 0, 0
            for start_s, length_s in sorted(pieces):
                began = began if start_s == ended else start_s
                ended = start_s + length_s
                longest = max(longest, ended - began)
        return longest


_READ = ("attempt_id", "device_", "at_", "minutes_", "readings_", "idle_")
_NOTHING = Cast(Value(0), BigIntegerField())


def read_idle(
    samples: QuerySet[DeviceSample], hours: QuerySet[DeviceHour], conf: SchedulerConf
) -> dict[int, Readings]:
    """By attempt; one statement."""
    found: dict[int, Readings] = {}
    rows = _idle_rows(samples, hours, conf)
    for attempt, device, at_s, minutes, readings, idle_count in rows.iterator(_CHUNK):
        read = found.setdefault(attempt, Readings())
        read.readings += readings
        read.idle += idle_count
        if minutes is not None:
            read.pieces.setdefault(device, []).extend(_pieces(at_s, minutes))
        elif device is not None and idle_count:
            read.pieces.setdefault(device, []).append((at_s, conf.idle_span_s))
    return found


def _idle_rows(
    samples: QuerySet[DeviceSample], hours: QuerySet[DeviceHour], conf: SchedulerConf
) -> QuerySet[Any, tuple[Any, ...]]:
    """Spans of what is not rolled up, hours with idle time in them, and the sums of all hours."""
    idle = counted_idle(conf)
    spans = idle_spans(samples, conf).annotate(
        device_=F("device_id"),
        at_=F("span_s"),
        minutes_=_NONE,
        readings_=F("all_count"),
        idle_=F("idle_count"),
    )
    resting = hours.order_by().annotate(
        counted_=idle,
        device_=F("device_id"),
        at_=EpochSecond("hour"),
        minutes_=Coalesce("idle_minutes", Value(ALL_MINUTES), output_field=BigIntegerField()),
        readings_=_NOTHING,
        idle_=_NOTHING,
    )
    resting = resting.filter(
        Q(idle_minutes__gt=0) | Q(idle_minutes__isnull=True, counted_=F("count"))
    )
    old = (
        hours.order_by()
        .values("attempt_id")
        .annotate(
            device_=_NONE,
            at_=_NONE,
            minutes_=_NONE,
            readings_=Cast(Sum("count"), BigIntegerField()),
            idle_=Cast(Sum(idle), BigIntegerField()),
        )
    )
    return spans.values_list(*_READ).union(
        resting.values_list(*_READ), old.values_list(*_READ), all=True
    )


def counted_idle(conf: SchedulerConf) -> Coalesce:
    """Rolled up before idle readings were counted, an hour is what it was on average."""
    below = float(conf.idle_below_percent)
    on_average = Case(When(gpu_percent__lt=below, then=F("count")), default=Value(0))
    return Coalesce("idle", on_average, output_field=BigIntegerField())


def _pieces(hour_s: int, minutes: int) -> Iterator[tuple[int, int]]:
    """The idle time of an hour whose idle minutes are bits, the first the lowest."""
    if minutes == ALL_MINUTES:
        yield hour_s, _HOUR_S
        return
    for minute in range(60):
        if minutes >> minute & 1:
            yield hour_s + 60 * minute, 60


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
