"""Which days of a span are summed, which are still to be counted, and what the summed ones say.

A sum stands for its day as long as nothing of it has changed: a month that was closed since, a
charge that came later or another rule of what is idle make it count for nothing, whether or not
anybody has summed since; a reading that comes late takes it away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db.models import (
    BigIntegerField,
    BooleanField,
    F,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
)

from accounts.statements import Null
from scheduler.ledger.exact import ZERO
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import DAY_S
from scheduler.models import DayOfWaste, DaysSummed, SummedDay, UsageEntry
from scheduler.models.exact import ExactSum
from scheduler.selectors.books.frame import Ask
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import EpochSecond, Windows
from scheduler.selectors.books.slugs.lines import is_own
from scheduler.selectors.books.slugs.wasted.hours import Hours, hours_within, summed_hours
from scheduler.selectors.books.slugs.wasted.sums import AMOUNTS, SECONDS, Sums
from scheduler.selectors.books.spans import Span

# Into so many windows at most a statement looks; days between them are counted though summed.
MOST_WINDOWS = 6
# Beyond the number of any entry.
_NO_ENTRY = 2**62
_NUMBER = BigIntegerField()
_UNKNOWN = Null(BooleanField())
_NO_NUMBER = Null(_NUMBER)


@dataclass(frozen=True, slots=True)
class Days:
    """The first seconds of the days that sums stand for, and the windows of all others with the
    hours of theirs whose readings are summed."""

    summed: tuple[int, ...]
    windows: Windows
    hours: Hours


def days_of(span: Span, closed: Collection[str], idle_as: str) -> Days:
    """Of a span, `closed` being those of its months that are, `idle_as` as readings are read now;
    one statement."""
    known = SummedDay.objects.filter(
        day_s__gte=span.start_s, day_s__lt=span.end_s, idle_as__in=("", idle_as)
    )
    counted = Subquery(DaysSummed.objects.order_by("pk").values("upto")[:1])
    later = charged_days(UsageEntry.objects.filter(pk__gt=counted, pk__lte=_NO_ENTRY))
    hours = summed_hours(span.start_s, span.end_s, idle_as)
    no = {"spans_": _NO_NUMBER, "until_": _NO_NUMBER}
    rows = known.order_by().annotate(**no).values_list("day_s", "is_final", *no)
    rows = rows.union(
        later.annotate(final_=_UNKNOWN, **no).values_list("day_", "final_", *no),
        hours.annotate(final_=_UNKNOWN).values_list("hour_s", "final_", "spans_s", "until_s"),
    )
    summed: set[int] = set()
    charged: set[int] = set()
    of_hours: list[tuple[int, int, int]] = []
    for day_s, is_final, spans_s, until_s in rows:
        if until_s is not None:
            of_hours.append((day_s, spans_s, until_s))
            continue
        is_closed = str(Month.of(day_s)) in closed
        if is_final is None:
            # A closed month goes by its lines, whatever is charged later.
            charged.update(() if is_closed else (day_s,))
        elif is_final == is_closed and day_s + DAY_S <= span.end_s:
            summed.add(day_s)
    return _parted(span, summed - charged, of_hours)


def charged_days(entries: QuerySet[UsageEntry]) -> QuerySet[Any]:
    """The days of these entries, each once, as `day_`."""
    second = EpochSecond("period_start")
    days = entries.order_by().annotate(second_=second)
    return days.annotate(day_=F("second_") - F("second_") % Value(DAY_S, _NUMBER)).distinct()


def _parted(span: Span, summed: set[int], hours: Iterable[tuple[int, int, int]]) -> Days:
    windows: list[tuple[int, int]] = []
    for day_s in range(span.start_s, span.end_s, DAY_S):
        if day_s in summed:
            continue
        until = min(day_s + DAY_S, span.end_s)
        if windows and windows[-1][1] == day_s:
            windows[-1] = (windows[-1][0], until)
        else:
            windows.append((day_s, until))
    while len(windows) > MOST_WINDOWS:
        gaps = [later[0] - earlier[1] for earlier, later in pairwise(windows)]
        place = gaps.index(min(gaps))
        windows[place : place + 2] = [(windows[place][0], windows[place + 1][1])]
    left = [day for day in sorted(summed) if not any(s <= day < e for s, e in windows)]
    windows_left = tuple(windows)
    return Days(tuple(left), windows_left, hours_within(windows_left, hours))


def kept_sums(ask: Ask, scope: Scope, days: Days) -> Iterator[tuple[int, str, Sums]]:
    """Of the summed days: the first second, the account and its sums, as far as they are the
    viewer's; one statement, none where no day is summed. Raises NotFound as `asked` does.

    Time is theirs by the project that held it, money by the account that paid.
    """
    rows = DayOfWaste.objects.filter(day_s__in=days.summed).order_by()
    if is_own(scope):
        rows = rows.filter(person=scope.viewer)
        accounts = scope.own_accounts(ask.team, ask.project)
    else:
        accounts = scope.accounts(ask.team, ask.project)
    if accounts is not None:
        rows = rows.filter(Q(account__in=accounts) | Q(home__in=accounts))
    mine = None if accounts is None else frozenset(accounts)
    totals = {f"{name}_": Sum(name) for name in SECONDS}
    exact = {f"{name}_": ExactSum(name) for name in AMOUNTS}
    for day_s, account, home, *figures in rows.values_list("day_s", "account", "home").annotate(
        **totals, **exact
    ):
        seconds, amounts = tuple(figures[: len(SECONDS)]), tuple(figures[len(SECONDS) :])
        sums = Sums()
        has_time, has_cost = mine is None or home in mine, mine is None or account in mine
        if has_time:
            sums.add_seconds(seconds)
        if has_cost:
            sums.add_amounts(amounts)
            # What is known to have been idle comes with the time.
            sums.idle_amount = sums.idle_amount if has_time else ZERO
        yield day_s, account if has_cost else home, sums
