"""Which hours of today's readings are summed by attempt, and which readings are still read raw.

An hour is summed up to a second, also while it lasts. Its sum stands for the readings before until
one of them comes late, which takes it away, or the rule of what is idle is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from scheduler.conf import SchedulerConf
from scheduler.models import SummedHour
from scheduler.selectors.books.seconds import Windows

HOUR_S = 3600
# Sums are this far behind at most where nothing is late: a minute and a half, and what the run that
# is under way takes.
_FRESH_S = 240


@dataclass(frozen=True, slots=True)
class Hours:
    """Of windows: the hours that sums stand for, as (first second, `spans_s`, `until_s` of
    `SummedHour`), and the pieces of time of which readings are read raw."""

    summed: tuple[tuple[int, int, int], ...]
    raw: Windows

    @property
    def of_hours(self) -> Q:
        """Rows of `HourOfReadings` that stand."""
        named = ((hour_s, spans_s) for hour_s, spans_s, _ in self.summed if spans_s > hour_s)
        return _any(Q(hour_s=hour_s, until_s=spans_s) for hour_s, spans_s in named)

    @property
    def of_spans(self) -> Q:
        """Rows of `SpanBegun` that stand."""
        named = ((spans_s, until_s) for _, spans_s, until_s in self.summed if until_s > spans_s)
        return _any(Q(span_s=spans_s, until_s=until_s) for spans_s, until_s in named)

    @property
    def begun(self) -> frozenset[int]:
        """The first seconds of spans that are summed to a part."""
        return frozenset(spans_s for _, spans_s, until_s in self.summed if until_s > spans_s)

    def without_fresh(self, end_s: int) -> Hours:
        """Without the raw readings of the moments before `end_s` that go on from a sum.

        Of thousands of GPUs they take as long to read as all else together.
        """
        begin, until = self.raw[-1] if self.raw else (0, 0)
        goes_on = any(until_s == begin for _, _, until_s in self.summed)
        if until == end_s and until - begin <= _FRESH_S and goes_on:
            return Hours(self.summed, self.raw[:-1])
        return self


def hours_of(windows: Windows, idle_as: str) -> Hours:
    """`idle_as`: as readings are read now. One statement, none where there is no window."""
    if not windows:
        return Hours((), ())
    first, last = windows[0][0], windows[-1][1]
    rows = summed_hours(first, last, idle_as).values_list("hour_s", "spans_s", "until_s")
    return hours_within(windows, rows)


def summed_hours(first_s: int, end_s: int, idle_as: str) -> QuerySet[SummedHour]:
    """Of a piece of time."""
    rows = SummedHour.objects.filter(idle_as=idle_as)
    return rows.filter(hour_s__gte=first_s, until_s__lte=end_s).order_by()


def hours_within(windows: Windows, rows: Iterable[tuple[int, int, int]]) -> Hours:
    """Those of these hours that lie in the windows, whatever others there are."""
    lie = (one for one in rows if any(s <= one[0] and one[2] <= e for s, e in windows))
    summed = tuple(sorted(lie))
    return Hours(summed, tuple(_left(windows, summed)))


def _left(windows: Windows, summed: tuple[tuple[int, int, int], ...]) -> Iterator[tuple[int, int]]:
    for start_s, end_s in windows:
        begin = start_s
        for hour_s, _, until_s in summed:
            if not start_s <= hour_s < end_s:
                continue
            if hour_s > begin:
                yield begin, hour_s
            begin = until_s
        if begin < end_s:
            yield begin, end_s


def begin_of_span(second: int, conf: SchedulerConf) -> int:
    """The first second of the span that a second lies in; spans end with hours."""
    return second - second % HOUR_S % conf.idle_span_s


def end_of_span(span_s: int, conf: SchedulerConf) -> int:
    """The first second after it."""
    return min(span_s + conf.idle_span_s, span_s - span_s % HOUR_S + HOUR_S)


def _any(each: Iterator[Q]) -> Q:
    return reduce(or_, each, Q(pk__in=[]))
