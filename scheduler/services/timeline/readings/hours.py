"""What today's readings say, summed by attempt and hour as they come, so that a page of today reads
those of the last minutes alone.

Each run goes on where the last one ended, also within an hour. Spans that are over are idle or not;
of the one that lasts, readings and their per cent are kept by device. Nothing is wrong where this
ran late or never: whoever reads takes raw readings where no sum stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from math import inf
from time import monotonic

from django.db import transaction
from django.db.models import F

from scheduler.conf import SchedulerConf, load_conf
from scheduler.ledger.rating import DAY_S
from scheduler.models import SpanBegun, SpanOfReadings, SummedHour
from scheduler.selectors.books.slugs.wasted.asked import idle_as
from scheduler.selectors.books.slugs.wasted.hours import HOUR_S
from scheduler.services.timeline.readings.late import Turn, begin, resting_hours
from scheduler.services.timeline.readings.pieces import BY_HOUR, SPANS_KEPT, PieceOfHour

# A piece that takes less is made larger, one that takes more smaller, to a minute of readings.
_QUICK_S, _LONG_S, _LEAST_S = 1.0, 5.0, 60


def sum_hours(*, now: datetime, within_s: float = inf) -> int:
    """Sum the readings of today and yesterday that are due, for so many seconds; how many hours
    have more summed than before.

    The oldest hours first, a piece of each and then of the next, round after round: what takes
    long, or is undone again and again, keeps none of the others waiting for ever. Each piece is
    kept, and the next run goes on after it. Hours that rest (`late.py`) are left out.
    """
    conf, until_s = load_conf(), monotonic() + within_s
    turn, first_s = begin(now), _first_hour(now, conf)
    if SummedHour.objects.filter(hour_s__lt=first_s).exists():
        forget_hours(first_s)
    SpanOfReadings.objects.filter(at__lt=now - 2 * SPANS_KEPT).delete()
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
) -> PieceOfHour | None:
    """What is summed next of an hour; None where nothing is due."""
    one = known.get(hour_s)
    begin_s = one.until_s if one else hour_s
    upto_s = min(hour_s + HOUR_S, turn.due_s, begin_s + pace.piece_s)
    return PieceOfHour(hour_s, upto_s, one, conf) if upto_s > begin_s else None


def _tidy(known: Collection[SummedHour], before_s: int) -> None:
    """Of hours before that are summed to their end, delete what only earlier readers went by."""
    done = [one.hour_s for one in known if one.until_s == one.hour_s + HOUR_S <= before_s]
    if done:
        for model in BY_HOUR:
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
    for model in BY_HOUR:
        model._default_manager.filter(hour_s__lt=before_s).delete()
    SpanBegun.objects.filter(span_s__lt=before_s).delete()


def forget_attempts(attempts: Collection[int]) -> None:
    """Delete what is known of these attempts' hours, whose readings go."""
    for model in (*BY_HOUR, SpanBegun, SpanOfReadings):
        model._default_manager.filter(attempt__in=attempts).delete()
