"""How a count of jobs by day changes when entries come: each job counts on its days of charge, each
with the one before it.

What is equal: the days of every job, sorted, and a row for each next to the one before it. It is
done with the jobs of the new entries alone, because most of the past is of jobs that ended.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from django.db.models import QuerySet

from scheduler.models import UsageEntry
from scheduler.selectors.sharing.days import DayStart
from scheduler.selectors.sharing.use import ANY

_AT_ONCE = 500
# Job, project, person, model, day.
_Charged = tuple[int, int, int, str, datetime]
# Project, person, model, day, the one before it.
Key = tuple[int, int, str, datetime, datetime | None]


def moved_jobs(entries: QuerySet[UsageEntry], upto: int) -> Counter[Key]:
    """By how much each row changes with these entries, which are numbered higher than `upto`."""
    changes: Counter[Key] = Counter()
    charged_on = _by_job(_days(entries))
    jobs = sorted(charged_on)
    for begin in range(0, len(jobs), _AT_ONCE):
        some = jobs[begin : begin + _AT_ONCE]
        earlier = UsageEntry.objects.filter(job__in=some, pk__lte=upto)
        known: dict[tuple[int, int, str], list[datetime]] = defaultdict(list)
        for job, project, _, model, day in _days(earlier) if upto else ():
            for kind in (ANY, model):
                _add(known[job, project, kind], day)
        for job in some:
            for project, person, model, day in charged_on[job]:
                for kind in (ANY, model):
                    days = known[job, project, kind]
                    _count((project, person, kind), days, day, changes)
    return Counter({key: jobs for key, jobs in changes.items() if jobs})


def _days(
    entries: QuerySet[UsageEntry],
) -> QuerySet[UsageEntry, tuple[int, int, int, str, datetime]]:
    rows = entries.order_by().values_list(
        "job_id", "project_id", "job__owner_id", "device_model", DayStart("period_start")
    )
    return rows.distinct()


def _by_job(
    rows: Iterable[_Charged],
) -> dict[int, list[tuple[int, int, str, datetime]]]:
    found: dict[int, list[tuple[int, int, str, datetime]]] = defaultdict(list)
    for job, project, person, model, day in rows:
        found[job].append((project, person, model, day))
    return found


def _add(days: list[datetime], day: datetime) -> bool:
    """Whether the sorted days did not have it."""
    place = bisect_left(days, day)
    if place < len(days) and days[place] == day:
        return False
    insort(days, day)
    return True


def _count(
    whose: tuple[int, int, str], days: list[datetime], day: datetime, changes: Counter[Key]
) -> None:
    """The job is charged on this day: a row more, and the day after it has another before it."""
    if not _add(days, day):
        return
    place = bisect_left(days, day)
    before = days[place - 1] if place else None
    changes[*whose, day, before] += 1
    if place + 1 < len(days):
        after = days[place + 1]
        changes[*whose, after, before] -= 1
        changes[*whose, after, day] += 1
