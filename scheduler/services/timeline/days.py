"""Use summed up by day, project, person, model and price, and jobs counted by day, so that pages
need not read every entry.

Entries are only ever added, so a sum holds for all of them up to a number. Whoever reads adds what
came later (`scheduler/selectors/sharing/use.py`): nothing is wrong where this ran late or never.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.models import Max, Sum

from scheduler.models import DayOfJobs, DayOfUse, DaysCounted, UsageEntry
from scheduler.selectors.sharing.days import DayStart
from scheduler.services.timeline.first_days import moved_jobs

# So many entries are summed at once, and so long nothing is put together that is being read.
AT_ONCE = 200_000
_LEAST_APART = timedelta(seconds=60)
_USE = ("project_id", "day", "person_id", "device_model", "unit_price")
_JOBS = ("project_id", "person_id", "device_model", "day", "before")
_VALUE = {DayOfUse: "gpu_seconds", DayOfJobs: "jobs"}


def count_days(*, now: datetime) -> int:
    """Sum up what came since the last count; how many entries. Again at once it does nothing."""
    upto = _put_together(now)
    newest = newest_entry() if upto is not None else None
    if upto is None or newest is None:
        return 0
    begin = upto
    while upto < newest:
        until = min(newest, upto + AT_ONCE)
        if not _count(upto, until, now):
            break
        upto = until
    return upto - begin


def newest_entry() -> int | None:
    """The highest number below which no entry can come any more; None while others are writing.

    PostgreSQL gives numbers before it shows rows: whoever may write waits until it is known.
    """
    if connection.vendor != "postgresql":
        return _highest()
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '2s'")
            cursor.execute("LOCK TABLE scheduler_usageentry IN SHARE MODE")
            return _highest()
    except OperationalError:
        return None


def _highest() -> int:
    highest: int | None = UsageEntry.objects.aggregate(highest=Max("pk"))["highest"]
    return highest or 0


def _count(upto: int, until: int, now: datetime) -> bool:
    """The entries behind `upto` up to `until`; whether nobody else was faster."""
    entries = UsageEntry.objects.filter(pk__gt=upto, pk__lte=until).order_by()
    sums = list(
        entries.values_list(
            "project_id", DayStart("period_start"), "job__owner_id", "device_model", "unit_price"
        ).annotate(sum_=Sum("gpu_seconds"))
    )
    moved = moved_jobs(entries, upto)
    with transaction.atomic():
        if not DaysCounted.objects.filter(upto=upto).update(upto=until, at=now):
            return False
        _write(DayOfUse, _USE, ((tuple(key), sum_) for *key, sum_ in sums), until)
        _write(DayOfJobs, _JOBS, moved.items(), until)
    return True


@transaction.atomic
def _put_together(now: datetime) -> int | None:
    """Of each day and price one row again, as far as was counted; how far that is.

    None if it was counted a moment ago: somebody may be reading rows that stood before that.
    """
    state = DaysCounted.objects.select_for_update().order_by("pk").first()
    if state is None:
        DaysCounted.objects.get_or_create(pk=1, defaults={"at": now})
        return 0
    if state.at <= now < state.at + _LEAST_APART:
        return None
    for model, key in ((DayOfUse, _USE), (DayOfJobs, _JOBS)):
        _sum_up(model, key, state)
    DaysCounted.objects.filter(pk=state.pk).update(together=state.upto)
    return state.upto


def _sum_up(model: type[DayOfUse | DayOfJobs], names: tuple[str, ...], state: DaysCounted) -> None:
    """Of all rows that differ in their number alone one, where such came."""
    later = model.objects.filter(upto__gt=state.together)
    days: dict[int, list[datetime]] = defaultdict(list)
    for project, day in later.order_by().values_list("project_id", "day").distinct():
        days[project].append(day)
    for project, dates in days.items():
        rows = model.objects.filter(project=project, day__in=dates)
        sums: dict[tuple[Any, ...], int] = defaultdict(int)
        for *key, value in rows.values_list(*names, _VALUE[model]):
            sums[tuple(key)] += value
        rows.delete()
        _write(model, names, ((key, value) for key, value in sums.items() if value), state.upto)


def _write(
    model: type[DayOfUse | DayOfJobs],
    names: tuple[str, ...],
    sums: Iterable[tuple[tuple[Any, ...], int]],
    upto: int,
) -> None:
    rows: Iterable[Any] = (
        model(**dict(zip(names, key, strict=True)), **{_VALUE[model]: value}, upto=upto)
        for key, value in sums
    )
    model.objects.bulk_create(rows, batch_size=500)
