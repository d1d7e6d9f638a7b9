"""What was used in a span of time, and by how many jobs, mostly from sums of whole days instead of
every entry.

Sums stand for the entries up to a number; what came later is read as it is, so the answer is exact
whether or not anybody has counted lately.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.db.models import (
    BigIntegerField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
)

from accounts.models import Project
from scheduler.models import DayOfJobs, DayOfUse, DaysCounted, Job, UsageEntry
from scheduler.selectors.sharing.days import DayStart

_DAY = timedelta(days=1)
# Of a model of devices: any; see `DayOfJobs`.
ANY = ""
# Beyond the number of any entry.
_NO_ENTRY = 2**62
_Projects = QuerySet[Project] | None
# Not a column that an index begins with.
_PLAIN = ExpressionWrapper(F("project_id") + 0, output_field=BigIntegerField())
PERSON, MODEL = "user", "device_model"
# What names a group of use, from an entry, and from a day of jobs.
NAMES = {
    "team": ("project__team__slug",),
    "project": ("project__team__slug", "project__slug"),
    PERSON: ("job__owner__username",),
    MODEL: (MODEL,),
}
_NAMES_OF_DAYS = NAMES | {PERSON: ("person__username",)}
_WHOSE = {"team": "project_id", "project": "project_id", PERSON: "person_id", MODEL: MODEL}


def counted_upto() -> int:
    """Up to which entry days are counted now; one query.

    For `parts_of_use` at once: the answer holds until days were counted twice more.
    """
    return DaysCounted.objects.values_list("upto", flat=True).first() or 0


def parts_of_use(
    projects: _Projects, *, since: datetime, until: datetime, counted: int, by: str = ""
) -> list[QuerySet[Any]]:
    """Rows with `gpu_seconds`, `unit_price` and `on_day` (the begin of the UTC day), which together
    are the use that began in [since, until); of these projects, or (None) of all.

    For a union: each part is read from an index, however long the past is. `by` PERSON or MODEL:
    with `whose` job or which model it was, as `whose`, which takes longer.
    """
    first, last = _whole_days(since, until)
    if first >= last:
        return [_named(_entries(projects, since, until), by)]
    days = DayOfUse.objects.filter(day__gte=first, day__lt=last, upto__lte=counted)
    days = days if projects is None else days.filter(project__in=projects.values("pk"))
    days = days.annotate(on_day=F("day"))
    entries = [_later(projects, first, last, counted), _entries(projects, last, until)]
    if since < first:
        entries.append(_entries(projects, since, first))
    return [
        days.annotate(whose=F(_WHOSE[by])) if by in (PERSON, MODEL) else days,
        *(_named(one, by) for one in entries),
    ]


def jobs_of_use(
    projects: QuerySet[Project], *, since: datetime, until: datetime, counted: int, by: str
) -> Iterator[tuple[Any, tuple[str, ...], int]]:
    """Whose (as `parts_of_use` says it; a project where it says nothing), the names of that, and of
    how many jobs there was use that began in [since, until); to be added up. One statement.

    What is equal: the distinct jobs of all entries of the span.
    """
    first, last = _whole_days(since, until)
    if first >= last:
        parts = [_jobs(_entries(projects, since, until), by)]
    else:
        own = {"job": OuterRef("job"), "period_start__gte": first, "period_start__lt": last}
        own |= {MODEL: OuterRef(MODEL)} if by == MODEL else {}
        there = UsageEntry.objects.filter(pk__lte=counted, **own)
        there = there.alias(of=_PLAIN).filter(of=OuterRef("project_id"))
        loose = [_later(projects, first, last, counted), _entries(projects, last, until)]
        if since < first:
            loose.append(_entries(projects, since, first))
        parts = [_counted(projects, first, last, counted, by)]
        parts += [_jobs(one.filter(~Exists(there)), by) for one in loose]
    # Not with all rows: a job may be in several parts, and is told once for each of its names.
    rows = parts[0].union(*parts[1:]) if parts[1:] else parts[0].distinct()
    for whose, *names, job, jobs in rows:
        yield whose, tuple(names), 1 if job else jobs


def _counted(
    projects: QuerySet[Project], first: datetime, last: datetime, counted: int, by: str
) -> QuerySet[Any, Any]:
    kind = ~Q(device_model=ANY) if by == MODEL else Q(device_model=ANY)
    days = DayOfJobs.objects.filter(kind, project__in=projects.values("pk"), upto__lte=counted)
    days = days.filter(day__gte=first, day__lt=last).order_by()
    # Of the days of a job the first one in the span, as `DayOfJobs` says.
    days = days.filter(Q(before__isnull=True) | Q(before__lt=first))
    days = days.annotate(whose=F(_WHOSE[by]), no_job=Value(0, BigIntegerField()))
    return days.values_list("whose", *_NAMES_OF_DAYS[by], "no_job").annotate(jobs_=Sum("jobs"))


def _jobs(entries: QuerySet[UsageEntry], by: str) -> QuerySet[Any, Any]:
    entries = _named(entries, by).order_by().annotate(one=Value(1, BigIntegerField()))
    whose = "whose" if by in (PERSON, MODEL) else "project_id"
    return entries.values_list(whose, *NAMES[by], "job_id", "one")


def _whole_days(since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """From the begin of the first whole day of the span to the end of the last one."""
    first, last = _day_of(since), _day_of(until)
    return (first + _DAY if first < since else first), last


def _entries(projects: _Projects, since: datetime, until: datetime) -> QuerySet[UsageEntry]:
    found = UsageEntry.objects.filter(period_start__gte=since, period_start__lt=until)
    return found if projects is None else found.filter(project__in=projects.values("pk"))


def _later(
    projects: _Projects, first: datetime, last: datetime, counted: int
) -> QuerySet[UsageEntry]:
    """What no sum has yet, of the days from `first` to before `last`. Found by its number alone: by
    an index over projects and times a database would go through all of their past."""
    day = DayStart("period_start")
    # From both sides: with one end open SQLite would rather sum along an index of all the past.
    found = UsageEntry.objects.filter(pk__gt=counted, pk__lte=_NO_ENTRY).alias(day=day)
    found = found.filter(day__gte=first, day__lt=last)
    if projects is None:
        return found
    return found.alias(of=_PLAIN).filter(of__in=projects.values("pk"))


def _named(entries: QuerySet[UsageEntry], by: str) -> QuerySet[Any]:
    entries = entries.annotate(on_day=DayStart("period_start"))
    if by == PERSON:
        # Not by a join, which a database might begin with the jobs.
        owner = Job.objects.filter(pk=OuterRef("job_id")).values("owner_id")
        return entries.annotate(whose=Subquery(owner))
    return entries.annotate(whose=F(MODEL)) if by == MODEL else entries


def _day_of(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time(), tzinfo=UTC)
