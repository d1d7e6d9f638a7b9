"""What readings say of attempts and of each of their GPUs, from the sums of today's hours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import BigIntegerField, F, FloatField, QuerySet, Value

from accounts.statements import Null
from scheduler.conf import SchedulerConf
from scheduler.selectors.books.seconds import Readings, read_idle
from scheduler.selectors.books.slugs.wasted.readings import (
    BEGUN,
    NAMES,
    SPAN,
    Sources,
    parts_of_spans,
    within,
)

_CHUNK = 20_000
_HOUR, _IDLE = 2, 3
_NUMBER = BigIntegerField()
_NOTHING = Null(_NUMBER)
_NO_PERCENT = Null(FloatField())


def read_longest(sources: Sources, conf: SchedulerConf) -> dict[int, Readings]:
    """As `read_idle` of all raw readings and hours, to the last figure; two statements, one where
    no hour is summed."""
    hours = sources.hours
    if hours is None or not hours.summed:
        raw = sources.samples if hours is None else sources.samples.filter(within(hours.raw))
        return read_idle(raw, sources.rolled_up, conf)
    found = read_idle(sources.samples.none(), sources.rolled_up, conf)
    halves = hours.begun
    begun: dict[tuple[int, int, int], tuple[int, float]] = {}
    parts = [part.values_list(*NAMES) for part in _parts(sources, conf)]
    rows = parts[0].union(*parts[1:], all=True)
    for source, attempt, device, first, readings, idle, percent in rows.iterator(_CHUNK):
        if source == BEGUN or (source == SPAN and first in halves):
            count, so_far = begun.get((device, attempt, first), (0, 0.0))
            begun[device, attempt, first] = count + readings, so_far + percent
            continue
        read = found.setdefault(attempt, Readings())
        if source == _IDLE:
            spans = range(idle.bit_length())
            firsts = (first + span * conf.idle_span_s for span in spans if idle >> span & 1)
            read.pieces.setdefault(device, []).extend((at, conf.idle_span_s) for at in firsts)
        else:
            _add(read, device, first, readings, idle, conf)
    for (device, attempt, first), (readings, percent) in begun.items():
        is_idle = percent / readings < float(conf.idle_below_percent)
        read = found.setdefault(attempt, Readings())
        _add(read, device, first, readings, readings if is_idle else 0, conf)
    return found


def _add(
    read: Readings, device: int | None, first: int, readings: int, idle: int, conf: SchedulerConf
) -> None:
    read.readings += readings
    read.idle += idle
    if device is not None and idle:
        read.pieces.setdefault(device, []).append((first, conf.idle_span_s))


def _parts(sources: Sources, conf: SchedulerConf) -> Iterator[QuerySet[Any, Any]]:
    """`idle_` of the idle spans of an hour are their bits."""
    yield from parts_of_spans(sources, conf)
    if sources.of_hours is not None:
        yield sources.of_hours.order_by().annotate(
            source_=Value(_HOUR, _NUMBER),
            device_=_NOTHING,
            first_=F("hour_s"),
            readings_=F("readings"),
            idle_=F("idle"),
            percent_=_NO_PERCENT,
        )
    if sources.of_idle is not None:
        yield sources.of_idle.order_by().annotate(
            source_=Value(_IDLE, _NUMBER),
            device_=F("device_id"),
            first_=F("hour_s"),
            readings_=Value(0, _NUMBER),
            idle_=F("spans"),
            percent_=_NO_PERCENT,
        )
