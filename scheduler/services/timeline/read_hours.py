"""What today's readings say, summed by attempt and hour as they come, so that a page of today reads
those of the last minutes alone.

Each run goes on where the last one ended, also within an hour. Spans that are over are idle or not;
of the one that lasts, readings and their per cent are kept by device. Nothing is wrong where this
ran late or never: whoever reads takes raw readings where no sum stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from math import inf
from time import monotonic

from django.db import transaction
from django.db.models import F, Max, Sum

from scheduler.conf import SchedulerConf, load_conf
from scheduler.ledger.rating import DAY_S
from scheduler.models import DeviceSample, HourOfIdle, HourOfReadings, SpanBegun, SummedHour
from scheduler.selectors.books.seconds import idle_spans
from scheduler.selectors.books.slugs.wasted.asked import idle_as
from scheduler.selectors.books.slugs.wasted.hours import HOUR_S, begin_of_span
from scheduler.selectors.books.slugs.wasted.readings import within
from scheduler.services.timeline.read_late import Turn, as_it_is, begin, resting_hours

# A piece that takes less is made larger, one that takes more smaller, to a minute of readings.
_QUICK_S, _LONG_S, _LEAST_S = 1.0, 5.0, 60
_BATCH = 500
_CHUNK = 20_000
# Device, attempt and the first second of a span: readings, and their per cent together.
_Begun = dict[tuple[int, int, int], tuple[int, float]]
# By attempt: readings, and how many of them idle.
_Summed = dict[int, tuple[int, int]]
# By device and attempt: the idle spans of the hour, as bits.
_Idle = dict[tuple[int, int], int]
_BY_HOUR = (HourOfReadings, HourOfIdle)


def sum_hours(*, now: datetime, within_s: float = inf) -> int:
    """Sum the readings of today and yesterday that are due, for so many seconds; how many hours
    have more summed than before.

    The oldest hours first, a piece of each and then of the next, round after round: what takes
    long, or is undone again and again, keeps none of the others waiting for ever. Each piece is
    kept, and the next run goes on after it. Hours that rest (`read_late.py`) are left out.
    """
    conf, until_s = load_conf(), monotonic() + within_s
    turn, first_s = begin(now), _first_hour(now, conf)
    if SummedHour.objects.filter(hour_s__lt=first_s).exists():
        forget_hours(first_s)
    newest_s = turn.due_s - turn.due_s % HOUR_S
    stand = list(SummedHour.objects.all())
    # By another rule, too: it may be the rule again before this one has come to all hours.
    _tidy(stand, newest_s - HOUR_S)
    known, pace = _known(stand, conf), _Pace()
    summed, hours = set[int](), list(range(first_s, newest_s + 1, HOUR_S))
    resting = resting_hours(stand, now)
    while hours := [
        one for one in hours if one not in resting and _piece(one, known, turn, pace, conf)
    ]:
        for hour_s in hours:
            piece = _piece(hour_s, known, turn, pace, conf)
            if piece is None or hour_s in resting:
                continue
            if monotonic() >= until_s:
                return len(summed)
            with pace.measured():
                written = piece.write(turn)
            if written is None:
                return len(summed)
            if written == turn:
                summed.add(hour_s)
            # Of other hours something may be undone as well.
            stand = list(SummedHour.objects.all())
            turn, known, resting = written, _known(stand, conf), resting_hours(stand, now)
    return len(summed)


def _known(stand: Iterable[SummedHour], conf: SchedulerConf) -> dict[int, SummedHour]:
    rule = idle_as(conf)
    return {one.hour_s: one for one in stand if one.idle_as == rule}


class _Pace:
    """How many seconds of readings are summed at once: more where that is quick, fewer where it
    takes long."""

    def __init__(self) -> None:
        self.piece_s = 600

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Around one piece."""
        began = monotonic()
        yield
        took_s = monotonic() - began
        if took_s < _QUICK_S:
            self.piece_s = min(2 * self.piece_s, HOUR_S)
        elif took_s > _LONG_S:
            self.piece_s = max(self.piece_s // 2, _LEAST_S)


def _piece(
    hour_s: int, known: Mapping[int, SummedHour], turn: Turn, pace: _Pace, conf: SchedulerConf
) -> _Hour | None:
    """What is summed next of an hour; None where nothing is due."""
    one = known.get(hour_s)
    begin_s = one.until_s if one else hour_s
    upto_s = min(hour_s + HOUR_S, turn.due_s, begin_s + pace.piece_s)
    return _Hour(hour_s, upto_s, one, conf) if upto_s > begin_s else None


def _tidy(known: Collection[SummedHour], before_s: int) -> None:
    """Of hours before that are summed to their end, delete what only earlier readers went by."""
    done = [one.hour_s for one in known if one.until_s == one.hour_s + HOUR_S <= before_s]
    if done:
        for model in _BY_HOUR:
            rows = model._default_manager.filter(hour_s__in=done)
            rows.filter(until_s__lt=F("hour_s") + HOUR_S).delete()
    if all(one.hour_s in done for one in known if one.hour_s < before_s):
        SpanBegun.objects.filter(span_s__lt=before_s).delete()


def _first_hour(now: datetime, conf: SchedulerConf) -> int:
    """Of yesterday, and an hour after those that may be rolled up now."""
    second = int(now.timestamp())
    yesterday = second - second % DAY_S - DAY_S
    oldest = second - conf.sample_retention_s
    return max(yesterday, oldest - oldest % HOUR_S + HOUR_S)


@transaction.atomic
def forget_hours(before_s: int) -> None:
    """Delete all that is known of hours before; called inside the transaction that rolls their
    readings up. It takes no turn, for which calls of nodes would wait until all is rolled up: none
    of these hours is summed any more (`_first_hour`)."""
    SummedHour.objects.filter(hour_s__lt=before_s).delete()
    for model in _BY_HOUR:
        model._default_manager.filter(hour_s__lt=before_s).delete()
    SpanBegun.objects.filter(span_s__lt=before_s).delete()


def forget_attempts(attempts: Collection[int]) -> None:
    """Delete what is known of these attempts' hours, whose readings go."""
    for model in (*_BY_HOUR, SpanBegun):
        model._default_manager.filter(attempt__in=attempts).delete()


@dataclass(slots=True)
class _Hour:
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
        begun, summed, idle = self._counted()
        of_hours = [
            HourOfReadings(
                attempt_id=attempt, hour_s=self.hour_s, until_s=self._spans_s,
                readings=readings, idle=idle,
            )
            for attempt, (readings, idle) in summed.items()
        ]  # fmt: skip
        of_idle = [
            HourOfIdle(
                device_id=device, attempt_id=attempt, hour_s=self.hour_s, until_s=self._spans_s,
                spans=spans,
            )
            for (device, attempt), spans in idle.items()
        ]  # fmt: skip
        of_spans = [
            SpanBegun(
                device_id=device, attempt_id=attempt, span_s=span_s, until_s=self.upto_s,
                readings=readings, percent=percent,
            )
            for (device, attempt, span_s), (readings, percent) in begun.items()
        ]  # fmt: skip
        with transaction.atomic():
            found = as_it_is(turn)
            if found != turn:
                return found
            stood = self.known
            if stood is None or stood.spans_s != self._spans_s:
                for model in _BY_HOUR:
                    until_s = stood.spans_s if stood else None
                    self._clear(model, self._spans_s, until_s, hour_s=self.hour_s)
                HourOfReadings.objects.bulk_create(of_hours, batch_size=_BATCH)
                HourOfIdle.objects.bulk_create(of_idle, batch_size=_BATCH)
            in_hour = {"span_s__gte": self.hour_s, "span_s__lt": self.hour_s + HOUR_S}
            self._clear(SpanBegun, self.upto_s, stood.until_s if stood else None, **in_hour)
            SpanBegun.objects.bulk_create(of_spans, batch_size=_BATCH)
            SummedHour.objects.update_or_create(
                hour_s=self.hour_s,
                defaults={
                    "spans_s": self._spans_s,
                    "until_s": self.upto_s,
                    "idle_as": idle_as(self.conf),
                },
            )
        return turn

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

    def _counted(self) -> tuple[_Begun, _Summed, _Idle]:
        """The span that lasts, and the sums of those that are over."""
        begun, summed, rested = self._so_far()
        begin = self.known.until_s if self.known else self.hour_s
        samples = DeviceSample.objects.filter(within([(begin, self.upto_s)]), attempt__isnull=False)
        halves = {span_s for _, _, span_s in begun}
        spans = idle_spans(samples, self.conf).annotate(percent_=Sum("gpu_percent"))
        for device, attempt, span_s, readings, idle, percent in spans.values_list(
            "device_id", "attempt_id", "span_s", "all_count", "idle_count", "percent_"
        ).iterator(_CHUNK):
            if span_s >= self._spans_s or span_s in halves:
                count, so_far = begun.get((device, attempt, span_s), (0, 0.0))
                begun[device, attempt, span_s] = count + readings, so_far + percent
            else:
                _add(summed, attempt, readings, idle)
                if idle:
                    self._rest(rested, device, attempt, span_s)
        for key in [key for key in begun if key[2] < self._spans_s]:
            readings, percent = begun.pop(key)
            is_idle = percent / readings < float(self.conf.idle_below_percent)
            _add(summed, key[1], readings, readings if is_idle else 0)
            if is_idle:
                self._rest(rested, *key)
        return begun, summed, rested

    def _rest(self, rested: _Idle, device: int, attempt: int, span_s: int) -> None:
        bit = 1 << ((span_s - self.hour_s) // self.conf.idle_span_s)
        rested[device, attempt] = rested.get((device, attempt), 0) | bit

    def _so_far(self) -> tuple[_Begun, _Summed, _Idle]:
        if self.known is None:
            return {}, {}, {}
        of_spans = SpanBegun.objects.filter(span_s=self.known.spans_s, until_s=self.known.until_s)
        of_hour = {"hour_s": self.hour_s, "until_s": self.known.spans_s}
        of_hours = HourOfReadings.objects.filter(**of_hour)
        of_idle = HourOfIdle.objects.filter(**of_hour)
        return (
            {
                (device, attempt, span_s): (readings, percent)
                for device, attempt, span_s, readings, percent in of_spans.values_list(
                    "device_id", "attempt_id", "span_s", "readings", "percent"
                )
            },
            {
                attempt: (readings, idle)
                for attempt, readings, idle in of_hours.values_list(
                    "attempt_id", "readings", "idle"
                )
            },
            {
                (device, attempt): spans
                for device, attempt, spans in of_idle.values_list(
                    "device_id", "attempt_id", "spans"
                )
            },
        )


def _add(summed: _Summed, attempt: int, readings: int, idle: int) -> None:
    so_far = summed.get(attempt, (0, 0))
    summed[attempt] = so_far[0] + readings, so_far[1] + idle
