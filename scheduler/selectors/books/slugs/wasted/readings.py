"""What readings say of attempts by UTC day, also where the readings are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import F, Q, QuerySet, Sum, Value
from django.db.models.functions import Cast

from accounts.statements import Null, RealNumber, WholeNumber
from scheduler.conf import SchedulerConf
from scheduler.ledger.rating import DAY_S
from scheduler.models import (
    DayOfReadings,
    DeviceHour,
    DeviceSample,
    HourOfIdle,
    HourOfReadings,
    SpanBegun,
)
from scheduler.selectors.books.seconds import EpochSecond, counted_idle, idle_spans
from scheduler.selectors.books.slugs.wasted.hours import Hours, begin_of_span, end_of_span

_CHUNK = 20_000
# So many spans of one piece of time are asked for one by one.
_MOST_SPANS = 3
NAMES = ("source_", "attempt_id", "device_", "first_", "readings_", "idle_", "percent_")
SPAN, BEGUN, _SUMMED, _KEPT = range(4)
_NUMBER = WholeNumber()
_NO_DEVICE = Null(_NUMBER)
_NO_PERCENT = Null(RealNumber())
# By attempt and the first second of a UTC day: readings that tell the use, and how many of them lie
# in idle spans.
Read = dict[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Sources:
    """Raw readings (of any time where `hours` is given, which says of which they are read), hours
    of readings, what was kept of days, and sums of today's hours."""

    samples: QuerySet[DeviceSample]
    rolled_up: QuerySet[DeviceHour]
    kept: QuerySet[DayOfReadings]
    of_hours: QuerySet[HourOfReadings] | None = None
    of_spans: QuerySet[SpanBegun] | None = None
    of_idle: QuerySet[HourOfIdle] | None = None
    hours: Hours | None = None

    def of(self, rows: Q) -> Sources:
        """Those of some attempts, as each of the tables names them."""
        return Sources(
            self.samples.filter(rows),
            self.rolled_up.filter(rows),
            self.kept.filter(rows),
            self.of_hours.filter(rows) if self.of_hours is not None else None,
            self.of_spans.filter(rows) if self.of_spans is not None else None,
            self.of_idle.filter(rows) if self.of_idle is not None else None,
            self.hours,
        )


def idle_by_day(sources: Sources, conf: SchedulerConf, end_s: int) -> Read:
    """From the readings and the sums of their hours, and where fewer of them are left than there
    were, from what was kept of them; one statement.

    Of the day that `end_s` cuts, what was kept of all of it is taken where nothing else is left.
    """
    parts = [part.values_list(*NAMES) for part in _parts(sources, conf)]
    halves = sources.hours.begun if sources.hours else frozenset()
    found: Read = {}
    were: Read = {}
    begun: dict[tuple[int, int, int], tuple[int, float]] = {}
    for source, attempt, device, first, readings, idle, percent in (
        parts[0].union(*parts[1:], all=True).iterator(_CHUNK)
    ):
        if source == _KEPT:
            were[attempt, first] = readings, idle
        elif source == BEGUN or (source == SPAN and first in halves):
            count, so_far = begun.get((device, attempt, first), (0, 0.0))
            begun[device, attempt, first] = count + readings, so_far + percent
        else:
            _add(found, attempt, first, readings, idle)
    for (_, attempt, first), (readings, percent) in begun.items():
        is_idle = percent / readings < float(conf.idle_below_percent)
        _add(found, attempt, first, readings, readings if is_idle else 0)
    for key, one in were.items():
        is_cut = key[1] + DAY_S > end_s
        if key not in found or (one[0] > found[key][0] and not is_cut):
            found[key] = one
    return found


def _add(found: Read, attempt: int, second: int, readings: int, idle: int) -> None:
    key = attempt, second - second % DAY_S
    so_far = found.get(key, (0, 0))
    found[key] = so_far[0] + readings, so_far[1] + idle


def _parts(sources: Sources, conf: SchedulerConf) -> Iterator[QuerySet[Any, Any]]:
    length = Value(DAY_S, _NUMBER)
    number_of = {"device_": _NO_DEVICE, "percent_": _NO_PERCENT}
    yield from parts_of_spans(sources, conf)
    yield (
        sources.rolled_up.order_by()
        .annotate(second_=EpochSecond("hour"))
        .annotate(source_=Value(_SUMMED, _NUMBER), first_=F("second_") - F("second_") % length)
        .annotate(**number_of)
        .values("source_", "attempt_id", "device_", "first_", "percent_")
        .annotate(
            readings_=Cast(Sum("count"), _NUMBER),
            idle_=Cast(Sum(counted_idle(conf)), _NUMBER),
        )
    )
    yield sources.kept.order_by().annotate(
        source_=Value(_KEPT, _NUMBER),
        first_=F("day_s"),
        readings_=F("readings"),
        idle_=F("idle"),
        **number_of,
    )
    if sources.of_hours is not None:
        yield (
            sources.of_hours.order_by()
            .annotate(source_=Value(_SUMMED, _NUMBER), first_=F("hour_s") - F("hour_s") % length)
            .annotate(**number_of)
            .values("source_", "attempt_id", "device_", "first_", "percent_")
            .annotate(readings_=Cast(Sum("readings"), _NUMBER), idle_=Cast(Sum("idle"), _NUMBER))
        )


def parts_of_spans(sources: Sources, conf: SchedulerConf) -> Iterator[QuerySet[Any, Any]]:
    """Spans of raw readings, and those of which a part was summed, by the names that a row of
    either has."""
    for spans in _raw_spans(sources, conf):
        yield spans.annotate(
            source_=Value(SPAN, _NUMBER),
            device_=F("device_id"),
            first_=F("span_s"),
            readings_=F("all_count"),
            idle_=F("idle_count"),
            percent_=Sum("gpu_percent", output_field=RealNumber()),
        )
    if sources.of_spans is not None:
        yield sources.of_spans.order_by().annotate(
            source_=Value(BEGUN, _NUMBER),
            device_=F("device_id"),
            first_=F("span_s"),
            readings_=F("readings"),
            idle_=Value(0, _NUMBER),
            percent_=F("percent"),
        )


def _raw_spans(sources: Sources, conf: SchedulerConf) -> Iterator[QuerySet[Any, Any]]:
    """The spans of raw readings: of short pieces of time one by one, of all others at once."""
    if sources.hours is None:
        yield idle_spans(sources.samples, conf)
        return
    long: list[tuple[int, int]] = []
    for start_s, end_s in sources.hours.raw:
        pieces = list(_by_span(start_s, end_s, conf)) if end_s - start_s <= DAY_S else []
        if not pieces or len(pieces) > _MOST_SPANS:
            long.append((start_s, end_s))
            continue
        for span_s, begin, end in pieces:
            yield idle_spans(sources.samples.filter(within([(begin, end)])), conf, span_s)
    if long:
        yield idle_spans(sources.samples.filter(within(long)), conf)


def _by_span(start_s: int, end_s: int, conf: SchedulerConf) -> Iterator[tuple[int, int, int]]:
    while start_s < end_s:
        span_s = begin_of_span(start_s, conf)
        until = min(end_s, end_of_span(span_s, conf))
        yield span_s, start_s, until
        start_s = until


def within(pieces: Iterable[tuple[int, int]]) -> Q:
    """Raw readings of these pieces of time."""
    each = ((datetime.fromtimestamp(s, UTC), datetime.fromtimestamp(e, UTC)) for s, e in pieces)
    return reduce(or_, (Q(at__gte=s, at__lt=e) for s, e in each), Q(pk__in=[]))
