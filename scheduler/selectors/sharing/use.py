"""What was used in a span of time, mostly from sums of whole days instead of every entry.

Sums stand for the entries up to a number; what came later is read as it is, so the answer is exact
whether or not anybody has counted lately.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.db.models import BigIntegerField, ExpressionWrapper, F, OuterRef, QuerySet, Subquery

from accounts.models import Project
from scheduler.models import DayOfUse, DaysCounted, Job, UsageEntry
from scheduler.selectors.sharing.days import DayStart

_DAY = timedelta(days=1)
# Beyond the number of any entry.
_NO_ENTRY = 2**62
_Projects = QuerySet[Project] | None


def counted_upto() -> int:
    """Up to which entry days are counted now; one query.

    For `parts_of_use` at once: the answer holds until days were counted twice more.
    """
    return DaysCounted.objects.values_list("upto", flat=True).first() or 0


def parts_of_use(
    projects: _Projects, *, since: datetime, until: datetime, counted: int, by_person: bool = False
) -> list[QuerySet[Any]]:
    """Rows with `gpu_seconds`, `unit_price` and `on_day` (the begin of the UTC day), which together
    are the use that began in [since, until); of these projects, or (None) of all.

    For a union: each part is read from an index, however long the past is. `by_person`: with
    `whose` job it was, which takes longer.
    """
    first, last = _day_of(since), _day_of(until)
    if first < since:
        first += _DAY
    if first >= last:
        return [_named(_entries(projects, since, until), by_person)]
    days = DayOfUse.objects.filter(day__gte=first, day__lt=last, upto__lte=counted)
    days = days if projects is None else days.filter(project__in=projects.values("pk"))
    days = days.annotate(on_day=F("day"))
    entries = [_later(projects, first, last, counted), _entries(projects, last, until)]
    if since < first:
        entries.append(_entries(projects, since, first))
    return [
        days.annotate(whose=F("person_id")) if by_person else days,
        *(_named(one, by_person) for one in entries),
    ]


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
    plain = ExpressionWrapper(F("project_id") + 0, output_field=BigIntegerField())
    return found.alias(of=plain).filter(of__in=projects.values("pk"))


def _named(entries: QuerySet[UsageEntry], by_person: bool) -> QuerySet[Any]:
    entries = entries.annotate(on_day=DayStart("period_start"))
    # Not by a join, which a database might begin with the jobs.
    owner = Job.objects.filter(pk=OuterRef("job_id")).values("owner_id")
    return entries.annotate(whose=Subquery(owner)) if by_person else entries


def _day_of(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time(), tzinfo=UTC)
