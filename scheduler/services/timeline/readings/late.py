"""The one row by which who sums hours of readings and who brings late ones know of each other.

Whoever sums says first up to which second (`aims_s`), whoever brings a reading that is older than a
minute looks there, under the lock of the row and until its commit. So a reading is in the sum, or
the sum ends before it, or it undoes the sum. Where a node stays behind, sums end earlier
(`late_s`), so that it undoes none. Of one that is behind by more than sums wait for, the hour that
it speaks of rests, so that it is not summed between any two of its calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Q

from scheduler.models import HoursSummed, SummedHour

# Readings younger than this are not summed; those older than `_LATE` may be when they come. The
# time between is for clocks of servers that differ, and the minute before for those of nodes.
YOUNG_S = 90
_LATE = timedelta(seconds=60)
# Of a node that stays behind, calls differ by as much; so long after the last one sums go on to
# their usual end. Who is further behind than an hour speaks of hours that are over.
_DIFFER_S = 60
_BEHIND_FOR = timedelta(minutes=10)
# Readings of one call lie within as much, unless its node was away; it stays behind where calls are
# so for two minutes.
_AT_ONCE_S = 120
_GOES_ON = timedelta(minutes=2)
_MOST_BEHIND_S = 3600
_HOUR_S = 3600
# An hour that rests is summed again once nothing of it has come for so long.
REST_S = 120
_RESTS = "rests since "
# A call is over or undone by then, and has written something before.
_LONGEST = """
    SELECT COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - MIN(xact_start)), 0)
    FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
    AND pid <> pg_backend_pid() AND xact_start > clock_timestamp() - interval '1 hour'
    AND (backend_xid IS NOT NULL OR xact_start > clock_timestamp() - interval '5 minutes')
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of who sums: its number, how often something was undone before, and the second up to
    which it sums."""

    run: int
    undone: int
    due_s: int


def begin(now: datetime) -> Turn:
    """Another run begins; one that has begun before writes nothing any more."""
    writing_s = writing_for_s()
    with transaction.atomic():
        row = _locked()
        is_over = row.late_at is None or now - row.late_at > _BEHIND_FOR
        late_s = 0 if is_over else row.late_s
        due_s = int(now.timestamp() - writing_s) - max(YOUNG_S, late_s + _DIFFER_S)
        # Who is behind still says so before the next run.
        rows = HoursSummed.objects.filter(pk=row.pk)
        rows.update(run=row.run + 1, aims_s=due_s, late_s=late_s * 9 // 10)
        return Turn(row.run + 1, row.turn, due_s)


def as_it_is(turn: Turn) -> Turn | None:
    """The turn after what was undone meanwhile, under the lock; None where another run has begun.
    Inside a transaction."""
    row = _locked()
    return Turn(turn.run, row.turn, turn.due_s) if row.run == turn.run else None


def undo_late(moments: Iterable[datetime], *, now: datetime) -> None:
    """Readings of these moments have come: sums that may lack one are undone. Called inside the
    transaction that writes them, last of all that it locks."""
    late_s = int((now - _LATE).timestamp())
    seconds = [int(one.timestamp()) for one in moments]
    first: dict[int, int] = {}
    for second in seconds:
        if second < late_s:
            hour_s = second - second % _HOUR_S
            first[hour_s] = min(second, first.get(hour_s, second))
    if not first:
        return
    row = _locked()
    changes: dict[str, object] = {}
    if _undone(first, now) or min(first.values()) < row.aims_s:
        changes["turn"] = row.turn + 1
    # With a fresh one among them its clock is right; with those of a long time it was away.
    if max(seconds) < late_s and max(seconds) - min(seconds) <= _AT_ONCE_S:
        changes |= _behind(row, int(now.timestamp()) - min(seconds), now)
    if changes:
        HoursSummed.objects.filter(pk=row.pk).update(**changes)


def _undone(first: Mapping[int, int], now: datetime) -> int:
    """Undo what lacks a reading of these hours, by hour the second of the first one that has come;
    how many. Where sums do not wait for as late a one its hour, which is over, rests."""
    lacking = Q(pk__in=[])
    for hour_s, second in first.items():
        lacking |= Q(hour_s=hour_s, until_s__gt=second)
    too_late_s = int(now.timestamp()) - _MOST_BEHIND_S
    resting = [hour_s for hour_s, second in first.items() if second < too_late_s]
    count: int = SummedHour.objects.filter(lacking).exclude(hour_s__in=resting).delete()[0]
    if resting:
        # One that rests already does so longer.
        undone = SummedHour.objects.filter(lacking | Q(until_s=F("hour_s")), hour_s__in=resting)
        since = f"{_RESTS}{int(now.timestamp())}"
        count += undone.update(spans_s=F("hour_s"), until_s=F("hour_s"), idle_as=since)
    return count


def resting_hours(stand: Iterable[SummedHour], now: datetime) -> frozenset[int]:
    """Those of these hours that are not to be summed yet."""
    begin_s = int(now.timestamp()) - REST_S
    rest = (one for one in stand if one.idle_as.startswith(_RESTS))
    return frozenset(one.hour_s for one in rest if int(one.idle_as.removeprefix(_RESTS)) > begin_s)


def _behind(row: HoursSummed, age_s: int, now: datetime) -> dict[str, object]:
    """What is to be known of a call whose readings are all late: how late, once that goes on."""
    if age_s > _MOST_BEHIND_S:
        return {}
    last, since = row.late_at, row.late_from
    if last is None or since is None or now - last > _GOES_ON:
        return {"late_from": now, "late_at": now}
    found: dict[str, object] = {} if now - last < _GOES_ON / 4 else {"late_at": now}
    if now - since >= _GOES_ON and age_s > row.late_s:
        found |= {"late_at": now, "late_s": age_s}
    return found


def undo_hours(first_s: int, end_s: int) -> None:
    """The sums of hours in [first_s, end_s) stand for nothing any more. Inside a transaction."""
    row = _locked()
    HoursSummed.objects.filter(pk=row.pk).update(turn=F("turn") + 1)
    SummedHour.objects.filter(hour_s__gte=first_s, hour_s__lt=end_s).delete()


def writing_for_s() -> float:
    """For how many seconds the oldest transaction lasts that may still write. What it has written
    is seen only after its commit, however old it is then. With SQLite nobody writes for longer than
    others wait, which is less than the time that is not summed."""
    if connection.vendor != "postgresql":
        return 0.0
    with connection.cursor() as cursor:
        cursor.execute(_LONGEST)
        return float(cursor.fetchone()[0])


def _locked() -> HoursSummed:
    """Whoever sums meanwhile, and other late calls, wait until the caller's commit."""
    row = HoursSummed.objects.select_for_update().first()
    if row is None:
        # Also of the first sum of all.
        HoursSummed.objects.bulk_create([HoursSummed(pk=1)], ignore_conflicts=True)
        row = HoursSummed.objects.select_for_update().get(pk=1)
    return row
