"""A piece of readings of one hour: summed, and written if nobody has undone the hour meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Max, Sum

from scheduler.conf import SchedulerConf
from scheduler.models import (
    DeviceSample,
    HourOfIdle,
    HourOfReadings,
    SpanBegun,
    SpanOfReadings,
    SummedHour,
)
from scheduler.selectors.books.seconds import idle_spans
from scheduler.selectors.books.slugs.wasted.asked import idle_as
from scheduler.selectors.books.slugs.wasted.hours import HOUR_S, begin_of_span
from scheduler.selectors.books.slugs.wasted.readings import within
from scheduler.services.timeline.readings.late import Turn, as_it_is

# So long spans of attempts are kept one by one.
SPANS_KEPT = timedelta(hours=1)
_BATCH = 500
_CHUNK = 20_000
BY_HOUR = (HourOfReadings, HourOfIdle)


@dataclass(slots=True)
class _Read:
    """How many readings there were, their per cent together, and the highest."""

    readings: int = 0
    percent: float = 0.0
    highest: float = 0.0

    def add(self, readings: int, percent: float, highest: float) -> None:
        self.readings += readings
        self.percent += percent
        self.highest = max(self.highest, highest)


@dataclass(slots=True)
class _Counted:
    """Of an hour so far: by attempt, readings and how many of them idle; by device and attempt, the
    idle spans as bits; by device, attempt and first second, spans that last; by attempt and first
    second, spans that are over by now and were not before."""

    summed: dict[int, tuple[int, int]] = field(default_factory=dict)
    idle: dict[tuple[int, int], int] = field(default_factory=dict)
    begun: dict[tuple[int, int, int], _Read] = field(default_factory=dict)
    spans: dict[tuple[int, int], _Read] = field(default_factory=dict)

    def add(self, attempt: int, span_s: int, read: _Read, idle: int) -> None:
        """A span of a device that is over."""
        readings, idle_readings = self.summed.get(attempt, (0, 0))
        self.summed[attempt] = readings + read.readings, idle_readings + idle
        of_attempt = self.spans.setdefault((attempt, span_s), _Read())
        of_attempt.add(read.readings, read.percent, read.highest)

    def rest(self, device: int, attempt: int, place: int) -> None:
        """Of a device, the idle span at that place in the hour."""
        self.idle[device, attempt] = self.idle.get((device, attempt), 0) | 1 << place


@dataclass(slots=True)
class PieceOfHour:
    """One hour that is summed up to a second, going on from what is known of it."""

    hour_s: int
    upto_s: int
    known: SummedHour | None
    conf: SchedulerConf

    @property
    def _spans_s(self) -> int:
        """All spans that end by then are over."""
        is_over = self.upto_s == self.hour_s + HOUR_S
        return self.upto_s if is_over else begin_of_span(self.upto_s, self.conf)

    def write(self, turn: Turn) -> Turn | None:
        """The same turn where it is written, another one where something was undone meanwhile and
        nothing is, None where another run has begun."""
        counted, stood = self._counted(), self.known
        with transaction.atomic():
            found = as_it_is(turn)
            if found != turn:
                return found
            if stood is None or stood.spans_s != self._spans_s:
                for model in BY_HOUR:
                    until_s = stood.spans_s if stood else None
                    self._clear(model, self._spans_s, until_s, hour_s=self.hour_s)
                self._write_over(counted, turn)
            in_hour = {"span_s__gte": self.hour_s, "span_s__lt": self.hour_s + HOUR_S}
            self._clear(SpanBegun, self.upto_s, stood.until_s if stood else None, **in_hour)
            begun = (
                SpanBegun(
                    device_id=device, attempt_id=attempt, span_s=span_s, until_s=self.upto_s,
                    readings=read.readings, percent=read.percent, highest=read.highest,
                )
                for (device, attempt, span_s), read in counted.begun.items()
            )  # fmt: skip
            SpanBegun.objects.bulk_create(begun, batch_size=_BATCH)
            SummedHour.objects.update_or_create(
                hour_s=self.hour_s,
                defaults={
                    "spans_s": self._spans_s,
                    "until_s": self.upto_s,
                    "idle_as": idle_as(self.conf),
                },
            )
        return turn

    def _write_over(self, counted: _Counted, turn: Turn) -> None:
        """What spans that are over say."""
        of_hour = {"hour_s": self.hour_s, "until_s": self._spans_s}
        of_hours = (
            HourOfReadings(attempt_id=attempt, readings=readings, idle=idle, **of_hour)
            for attempt, (readings, idle) in counted.summed.items()
        )
        HourOfReadings.objects.bulk_create(of_hours, batch_size=_BATCH)
        of_idle = (
            HourOfIdle(device_id=device, attempt_id=attempt, spans=spans, **of_hour)
            for (device, attempt), spans in counted.idle.items()
        )
        HourOfIdle.objects.bulk_create(of_idle, batch_size=_BATCH)
        from_s = self.known.spans_s if self.known else self.hour_s
        again = {"at__gte": _moment(from_s), "at__lt": _moment(self.hour_s + HOUR_S)}
        SpanOfReadings.objects.filter(**again).delete()
        kept = _moment(turn.due_s) - SPANS_KEPT
        of_spans = (
            SpanOfReadings(
                attempt_id=attempt, at=_moment(span_s), readings=read.readings,
                percent=read.percent, highest=read.highest,
            )
            for (attempt, span_s), read in counted.spans.items()
            if _moment(span_s) >= kept
        )  # fmt: skip
        SpanOfReadings.objects.bulk_create(of_spans, batch_size=_BATCH)

    def _clear(
        self,
        model: type[HourOfReadings] | type[HourOfIdle] | type[SpanBegun],
        until_s: int,
        stood_s: int | None,
        **of_hour: int,
    ) -> None:
        """All but the rows of what stood until now, or was undone last, by which somebody may read
        who has begun to."""
        rows = model._default_manager.filter(**of_hour)
        if stood_s is None:
            stood_s = rows.exclude(until_s=until_s).aggregate(last=Max("until_s"))["last"]
        rows.exclude(until_s=stood_s).delete() if stood_s is not None else rows.delete()

    def _counted(self) -> _Counted:
        counted = self._so_far()
        begun = counted.begun
        begin = self.known.until_s if self.known else self.hour_s
        samples = DeviceSample.objects.filter(within([(begin, self.upto_s)]), attempt__isnull=False)
        halves = {span_s for _, _, span_s in begun}
        sums = {"percent_": Sum("gpu_percent"), "highest_": Max("gpu_percent")}
        spans = idle_spans(samples, self.conf).annotate(**sums)
        for device, attempt, span_s, readings, idle, percent, highest in spans.values_list(
            "device_id", "attempt_id", "span_s", "all_count", "idle_count", "percent_", "highest_"
        ).iterator(_CHUNK):
            if span_s >= self._spans_s or span_s in halves:
                half = begun.setdefault((device, attempt, span_s), _Read())
                half.add(readings, percent, highest)
                continue
            counted.add(attempt, span_s, _Read(readings, percent, highest), idle)
            if idle:
                counted.rest(device, attempt, self._place(span_s))
        for key in [key for key in begun if key[2] < self._spans_s]:
            device, attempt, span_s = key
            read = begun.pop(key)
            is_idle = read.percent / read.readings < float(self.conf.idle_below_percent)
            counted.add(attempt, span_s, read, read.readings if is_idle else 0)
            if is_idle:
                counted.rest(device, attempt, self._place(span_s))
        return counted

    def _place(self, span_s: int) -> int:
        return (span_s - self.hour_s) // self.conf.idle_span_s

    def _so_far(self) -> _Counted:
        if self.known is None:
            return _Counted()
        of_spans = SpanBegun.objects.filter(span_s=self.known.spans_s, until_s=self.known.until_s)
        of_hour = {"hour_s": self.hour_s, "until_s": self.known.spans_s}
        of_hours = HourOfReadings.objects.filter(**of_hour).values_list(
            "attempt_id", "readings", "idle"
        )
        of_idle = HourOfIdle.objects.filter(**of_hour).values_list(
            "device_id", "attempt_id", "spans"
        )
        begun = of_spans.values_list(
            "device_id", "attempt_id", "span_s", "readings", "percent", "highest"
        )
        return _Counted(
            {attempt: (readings, idle) for attempt, readings, idle in of_hours},
            {(device, attempt): spans for device, attempt, spans in of_idle},
            {
                (device, attempt, span_s): _Read(readings, percent, highest)
                for device, attempt, span_s, readings, percent, highest in begun
            },
        )


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
