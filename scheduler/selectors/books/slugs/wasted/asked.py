"""Whose segments, readings and charges a viewer's waste is counted from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_

from django.db.models import F, Q, QuerySet, Value

from accounts.models import User
from scheduler.conf import SchedulerConf
from scheduler.ledger.entries import PLATFORM
from scheduler.ledger.rating import DAY_S
from scheduler.models import (
    DayOfReadings,
    DeviceHour,
    DeviceSample,
    DeviceSegment,
    HourOfIdle,
    HourOfReadings,
    SpanBegun,
    UsageEntry,
)
from scheduler.selectors.books.frame import Ask
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import Windows, within
from scheduler.selectors.books.slugs.lines import is_own
from scheduler.selectors.books.slugs.wasted.hours import Hours
from scheduler.selectors.books.slugs.wasted.readings import Sources
from scheduler.selectors.books.slugs.wasted.readings import within as taken_within

_FEW_DAYS_S = 3 * DAY_S


@dataclass(frozen=True, slots=True)
class Asked:
    """What lies in windows: segments that reach into them, readings and what is known of readings,
    and charges."""

    segments: QuerySet[DeviceSegment]
    readings: Sources
    entries: QuerySet[UsageEntry]


def asked(ask: Ask, scope: Scope, windows: Windows, hours: Hours | None = None) -> Asked:
    """The viewer's, narrowed to a team and a project; of own jobs alone for who keeps no books and
    leads no team. `hours`: of the windows, which readings are summed. Raises NotFound for a team or
    project that is none or foreign."""
    found = all_within(windows, scope.places, hours)
    if not is_own(scope):
        return _of_accounts(found, scope.accounts(ask.team, ask.project))
    owner = scope.viewer
    own = Asked(
        found.segments.filter(attempt__job__owner=owner),
        found.readings.of(Q(attempt__job__owner=owner)),
        _charged_to(owner, found.entries, windows),
    )
    return _of_accounts(own, scope.own_accounts(ask.team, ask.project))


def _charged_to(
    owner: User, entries: QuerySet[UsageEntry], windows: Windows
) -> QuerySet[UsageEntry]:
    """Of one person's jobs. Those of a few days are looked up by time, which the sum sees to: by
    person SQLite would go through all jobs that one ever had, whose number grows."""
    if sum(end_s - start_s for start_s, end_s in windows) > _FEW_DAYS_S:
        return entries.filter(job__owner=owner)
    return entries.alias(owner_=F("job__owner_id") + Value(0)).filter(owner_=owner.pk)


def all_within(windows: Windows, accounts: Iterable[str], hours: Hours | None = None) -> Asked:
    """Everybody's. Charges are looked up by project, of all that these accounts name: by time alone
    a database would read all that was ever charged."""
    spans = _in_windows(windows)
    of_attempts = Q(attempt__isnull=False)
    first, last = (windows[0][0], windows[-1][1]) if windows else (0, 0)
    segments = within(first, last)
    if len(windows) != 1:
        segments = segments.filter(_any(Q(start_s__lt=e) & _ends_after(s) for s, e in windows))
    raw = DeviceSample.objects.filter(of_attempts)
    readings = Sources(
        raw if hours else raw.filter(taken_within(windows)),
        DeviceHour.objects.filter(of_attempts, _any(Q(hour__gte=s, hour__lt=e) for s, e in spans)),
        DayOfReadings.objects.filter(in_windows(windows)),
        HourOfReadings.objects.filter(hours.of_hours) if hours else None,
        SpanBegun.objects.filter(hours.of_spans) if hours else None,
        HourOfIdle.objects.filter(hours.of_hours) if hours else None,
        hours,
    )
    return Asked(
        segments,
        readings,
        UsageEntry.objects.filter(
            _any(Q(period_start__gte=s, period_start__lt=e) for s, e in spans),
            project_id__in=projects_of(accounts),
        ).order_by(),
    )


def in_windows(windows: Windows) -> Q:
    """Rows of days, by `day_s`, that lie in one of them."""
    return _any(Q(day_s__gte=start_s, day_s__lt=end_s) for start_s, end_s in windows)


def projects_of(accounts: Iterable[str]) -> list[int]:
    """The numbers of the projects that accounts name."""
    return [int(a.partition("project:")[2]) for a in accounts if "project:" in a]


def _of_accounts(found: Asked, accounts: list[str] | None) -> Asked:
    if accounts is None:
        return found
    projects = projects_of(accounts)
    teams = [int(a.removeprefix("team:")) for a in accounts if "/" not in a and a != PLATFORM]
    return Asked(
        found.segments.filter(Q(project_id__in=projects) | Q(team_id__in=teams)),
        found.readings.of(Q(attempt__job__project_id__in=projects)),
        found.entries.filter(project_id__in=projects),
    )


def _in_windows(windows: Windows) -> list[tuple[datetime, datetime]]:
    return [(datetime.fromtimestamp(s, UTC), datetime.fromtimestamp(e, UTC)) for s, e in windows]


def _ends_after(second: int) -> Q:
    return Q(end_s__gt=second) | Q(end_s__isnull=True)


def _any(each: Iterable[Q]) -> Q:
    """One of them; of none, nothing."""
    return reduce(or_, each, Q(pk__in=[]))


def what_is_idle(conf: SchedulerConf) -> str:
    """In words, for whoever reads such a report."""
    return (
        f"Idle: below {conf.idle_below_percent} % of use on average over {conf.idle_span_s / 60:g} "
        "minutes."
    )


def idle_as(conf: SchedulerConf) -> str:
    """The same for whoever compares."""
    return f"{conf.idle_below_percent:g} % in {conf.idle_span_s:g} s"
