"""Whose segments, readings and charges a viewer's waste is counted from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q, QuerySet

from scheduler.conf import SchedulerConf
from scheduler.ledger.entries import PLATFORM
from scheduler.models import DeviceHour, DeviceSample, DeviceSegment, UsageEntry
from scheduler.selectors.books.frame import Ask
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import within
from scheduler.selectors.books.slugs.lines import is_own


@dataclass(frozen=True, slots=True)
class Asked:
    """What lies in a window and is the viewer's, narrowed to a team and a project."""

    segments: QuerySet[DeviceSegment]
    samples: QuerySet[DeviceSample]
    hours: QuerySet[DeviceHour]
    entries: QuerySet[UsageEntry]


def asked(ask: Ask, scope: Scope, start_s: int, end_s: int) -> Asked:
    """Of own jobs alone for who keeps no books and leads no team. Raises NotFound for a team or
    project that is none or foreign."""
    start, end = (datetime.fromtimestamp(second, UTC) for second in (start_s, end_s))
    segments = within(start_s, end_s)
    samples = DeviceSample.objects.filter(attempt__isnull=False, at__gte=start, at__lt=end)
    hours = DeviceHour.objects.filter(attempt__isnull=False, hour__gte=start, hour__lt=end)
    entries = UsageEntry.objects.filter(period_start__gte=start, period_start__lt=end).order_by()
    if is_own(scope):
        segments = segments.filter(attempt__job__owner=scope.viewer)
        samples = samples.filter(attempt__job__owner=scope.viewer)
        hours = hours.filter(attempt__job__owner=scope.viewer)
        entries = entries.filter(job__owner=scope.viewer)
        accounts = scope.own_accounts(ask.team, ask.project)
    else:
        accounts = scope.accounts(ask.team, ask.project)
    if accounts is not None:
        projects = [int(a.partition("project:")[2]) for a in accounts if "project:" in a]
        teams = [int(a.removeprefix("team:")) for a in accounts if "/" not in a and a != PLATFORM]
        segments = segments.filter(Q(project_id__in=projects) | Q(team_id__in=teams))
        samples = samples.filter(attempt__job__project_id__in=projects)
        hours = hours.filter(attempt__job__project_id__in=projects)
        entries = entries.filter(project_id__in=projects)
    return Asked(segments, samples, hours, entries)


def what_is_idle(conf: SchedulerConf) -> str:
    """In words, for whoever reads such a report."""
    return (
        f"Idle: below {conf.idle_below_percent} % of use on average over {conf.idle_span_s / 60:g} "
        "minutes."
    )
