"""Use and waste summed up by day, and readings before they go, so that the page of weeks and months
need not read every charge.

Whoever reads counts the days that are not summed, or of which something has changed since
(`selectors/books/slugs/wasted/days.py`): nothing is wrong where this ran late or never.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from time import monotonic

from django.db import transaction
from django.db.models import F, Min, Q

from accounts.models import Project
from scheduler.conf import load_conf
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import DAY_S
from scheduler.models import (
    Attempt,
    DayOfReadings,
    DayOfWaste,
    DaysSummed,
    DeviceHour,
    DeviceSample,
    DeviceSegment,
    Period,
    SummedDay,
    UsageEntry,
    UsageLine,
)
from scheduler.selectors.books.seconds import Windows
from scheduler.selectors.books.slugs.wasted.asked import all_within, idle_as, in_windows
from scheduler.selectors.books.slugs.wasted.days import charged_days
from scheduler.selectors.books.slugs.wasted.hours import hours_of
from scheduler.selectors.books.slugs.wasted.pieces import Key, Piece, of_open_months, pieces_of
from scheduler.selectors.books.slugs.wasted.readings import Read, Sources, idle_by_day
from scheduler.selectors.books.slugs.wasted.sums import Sums
from scheduler.selectors.books.spans import MOST_DAYS
from scheduler.services.timeline.days import newest_entry
from scheduler.services.timeline.readings.late import undo_hours
from scheduler.services.timeline.readings.late import undo_late as undo_late_hours

# What began on a day is written within this time after it; readings for as long as the retention.
SETTLED = timedelta(hours=2)
# Whoever sums may have a clock that is ahead of others'.
_MAY_BE_SUMMED = SETTLED / 2
_AT_ONCE = 20_000
# Beyond the last second of any day.
_NEVER = 2**62
_BATCH = 500


def sum_days(*, now: datetime, within_s: float = inf) -> int:
    """Sum what is due, the newest days first, for so many seconds; how many days. Again at once it
    does nothing.

    1. Days to which something was charged, or whose month was closed, are undone.
    2. Days that are over and not summed are summed, in pieces of a month; so are those that were
       summed while readings of them might come, once none can.
    """
    known = _undo_changed(now)
    if known is None:
        return 0
    until_s, count = monotonic() + within_s, 0
    accounts = _accounts()
    for window in _due(now, known):
        done = _sum(window, known, accounts) if monotonic() < until_s else 0
        if not done:
            break
        count += done
    return count


@transaction.atomic
def sum_again(first_s: int = 0, end_s: int = _NEVER) -> int:
    """Undo all sums or those of the days in [first_s, end_s), and of their hours; of how many days.
    They are counted by whoever reads until they are summed again; what is kept of readings
    stays."""
    _take_turn()
    undo_hours(first_s, end_s)
    of_days = {"day_s__gte": first_s, "day_s__lt": end_s}
    DayOfWaste.objects.filter(**of_days).delete()
    return SummedDay.objects.filter(**of_days).delete()[0]


def undo_late(moments: Iterable[datetime], *, now: datetime) -> None:
    """Readings of these moments have come: the sums of days that were over by then are undone, and
    those of hours. Called inside the transaction that writes them."""
    moments = list(moments)
    last_s = int((now - _MAY_BE_SUMMED).timestamp()) - DAY_S
    days = {second - second % DAY_S for one in moments for second in (int(one.timestamp()),)}
    late = [day_s for day_s in days if day_s <= last_s]
    if late:
        _take_turn()
        SummedDay.objects.filter(day_s__in=late).delete()
    undo_late_hours(moments, now=now)


def _take_turn() -> None:
    """Whoever sums meanwhile has not seen what the caller has changed, and writes nothing: they
    wait for each other at this row."""
    DaysSummed.objects.update(turn=F("turn") + 1)


def keep_readings(attempts: Collection[int]) -> int:
    """Keep what the days of these attempts' readings say, before readings of them go; how many
    rows. Of days of which some went already, what was kept then stays."""
    of = {"attempt__in": attempts}
    samples, hours = DeviceSample.objects.filter(**of), DeviceHour.objects.filter(**of)
    kept = DayOfReadings.objects.filter(**of)
    read = idle_by_day(Sources(samples, hours, kept), load_conf(), _NEVER)
    rows = [
        DayOfReadings(attempt_id=attempt, day_s=day_s, readings=readings, idle=idle)
        for (attempt, day_s), (readings, idle) in read.items()
        if readings
    ]
    DayOfReadings.objects.bulk_create(
        rows,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["attempt", "day_s"],
        update_fields=["readings", "idle"],
    )
    return len(rows)


@dataclass(frozen=True, slots=True)
class _Known:
    """What a run knows: its turn, and up to which second readings are hours and none can come."""

    turn: int
    settled_s: int
    idle_as: str


def _undo_changed(now: datetime) -> _Known | None:
    """Undo what changed since the last sums, and begin a turn. None while others are writing."""
    newest = newest_entry()
    if newest is None:
        return None
    with transaction.atomic():
        DaysSummed.objects.get_or_create(pk=1, defaults={"upto": newest, "at": now})
        state = DaysSummed.objects.select_for_update().get(pk=1)
        later = UsageEntry.objects.filter(pk__gt=state.upto, pk__lte=newest)
        late = list(charged_days(later).values_list("day_", flat=True))
        not_final = SummedDay.objects.filter(is_final=False)
        not_final.filter(day_s__in=late).delete()
        for name in _closed():
            month = Month.parse(name)
            not_final.filter(day_s__gte=month.start_s, day_s__lt=month.end_s).delete()
        state.upto, state.at = max(newest, state.upto), now
        state.turn += 1
        state.save()
    conf = load_conf()
    settled = now - timedelta(seconds=conf.sample_retention_s) - SETTLED
    raw = DeviceSample.objects.filter(attempt__isnull=False).order_by("at")
    oldest = raw.values_list("at", flat=True).first()
    return _Known(state.turn, int(min(settled, oldest or settled).timestamp()), idle_as(conf))


def _closed() -> frozenset[str]:
    return frozenset(Period.objects.filter(version__gt=0).values_list("name", flat=True))


def _accounts() -> list[str]:
    """Of all projects."""
    rows = Project.objects.order_by("pk").values_list("team_id", "pk")
    return [f"team:{team}/project:{project}" for team, project in rows]


def _due(now: datetime, known: _Known) -> Iterator[tuple[int, int]]:
    """Windows of days that touch and lie in a month, newest first, back to the first segment."""
    first = DeviceSegment.objects.aggregate(first=Min("start_s"))["first"]
    if first is None:
        return
    begin = first - first % DAY_S
    stands = Q(idle_as="") | Q(idle_as=known.idle_as, day_s__gt=known.settled_s - DAY_S)
    stands |= Q(day_s__lt=begin)
    summed = set(SummedDay.objects.filter(stands).values_list("day_s", flat=True))
    over_s = int((now - SETTLED).timestamp())
    window: tuple[int, int] | None = None
    for day_s in range(over_s - over_s % DAY_S - DAY_S, begin - 1, -DAY_S):
        is_next = window and window[0] == day_s + DAY_S and Month.of(window[0]) == Month.of(day_s)
        if day_s in summed:
            continue
        if window and not is_next:
            yield window
        window = (day_s, window[1] if window and is_next else day_s + DAY_S)
    if window:
        yield window
    # Before it there is nothing: said of a year, which is what a page asks for at most.
    year = range(begin - MOST_DAYS * DAY_S, begin, DAY_S)
    if not summed.issuperset(year):
        yield year.start, year.stop


def _sum(window: tuple[int, int], known: _Known, accounts: list[str]) -> int:
    """The days of a window; how many, none where something was undone meanwhile."""
    windows: Windows = (window,)
    closed = _closed()
    conf = load_conf()
    found = all_within(windows, accounts, hours_of(windows, idle_as(conf)))
    lines = UsageLine.objects.filter(in_windows(windows), period__name__in=closed)
    entries = of_open_months(found.entries, closed)
    pieces = pieces_of(accounts, windows, lines, entries, found.segments)
    read = idle_by_day(found.readings, conf, window[1])
    rows = list(_rows(pieces, read))
    first_s, end_s = window
    with transaction.atomic():
        if DaysSummed.objects.select_for_update().get(pk=1).turn != known.turn:
            return 0
        DayOfWaste.objects.filter(day_s__gte=first_s, day_s__lt=end_s).delete()
        DayOfWaste.objects.bulk_create(rows, batch_size=_BATCH)
        days = [
            SummedDay(
                day_s=day_s,
                is_final=str(Month.of(day_s)) in closed,
                idle_as="" if day_s + DAY_S <= known.settled_s else known.idle_as,
            )
            for day_s in range(first_s, end_s, DAY_S)
        ]
        SummedDay.objects.bulk_create(
            days,
            update_conflicts=True,
            unique_fields=["day_s"],
            update_fields=["is_final", "idle_as"],
        )
    return len(days)


def _rows(pieces: dict[Key, Piece], read: Read) -> Iterator[DayOfWaste]:
    """Of each day, account, home and person one row."""
    owners = _owners({attempt for attempt, _, _ in pieces if attempt is not None})
    sums: dict[tuple[int, str, str, int | None], Sums] = defaultdict(Sums)
    for (attempt, day_s, account), piece in pieces.items():
        home, person = owners[attempt] if attempt is not None else (account, None)
        readings = read.get((attempt, day_s), (0, 0)) if attempt is not None else (0, 0)
        one = sums[day_s, account, home, person]
        one.take(piece, readings, is_job=attempt is not None)
    for (day_s, account, home, person), one in sums.items():
        if any(one.figures):
            yield DayOfWaste(
                day_s=day_s, account=account, home=home, person_id=person, **one.as_kept
            )


def _owners(attempts: Collection[int]) -> dict[int, tuple[str, int]]:
    """Of each attempt the account of its project, and whose job it is."""
    found: dict[int, tuple[str, int]] = {}
    numbers = sorted(attempts)
    for first in range(0, len(numbers), _AT_ONCE):
        some = Attempt.objects.filter(pk__in=numbers[first : first + _AT_ONCE])
        for attempt, team, project, owner in some.values_list(
            "pk", "job__project__team_id", "job__project_id", "job__owner_id"
        ):
            found[attempt] = f"team:{team}/project:{project}", owner
    return found
