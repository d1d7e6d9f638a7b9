"""What was guaranteed in a month, and which held devices were borrowed then."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Max, Min, Q, Value
from django.db.models.functions import Coalesce

from accounts.models import Project
from scheduler.ledger.entries import team_account
from scheduler.ledger.periods import Month
from scheduler.ledger.segments import ALLOCATED
from scheduler.ledger.tiers import Guarantee, Intervals, Stay, borrowed
from scheduler.models import Device, DeviceSegment, GuaranteeSpan
from scheduler.spec.values import WHOLE_MILLI


def guarantees_in(month: Month) -> list[Guarantee]:
    """Everything that was guaranteed at some second of a month; teams by their accounts."""
    still = Q(until_s=None) | Q(until_s__gt=month.start_s)
    spans = GuaranteeSpan.objects.filter(still, from_s__lt=month.end_s, gpus__gt=0)
    return [
        Guarantee(
            team=team_account(str(span.team_id)),
            pool="" if span.pool_id is None else str(span.pool_id),
            flavour=span.flavour,
            gpus=span.gpus,
            start_s=span.from_s,
            end_s=span.until_s,
        )
        for span in spans.order_by("pk")
    ]


def borrowed_in(month: Month, guarantees: Sequence[Guarantee]) -> Intervals:
    """When (attempt, device) was borrowed; a part of a card counts as what it is of it.

    No statement where nobody is guaranteed anything. Memory grows with the devices held in the
    month and with the changes of tier.
    """
    if not guarantees:
        return {}
    teams = dict(Project.objects.order_by().values_list("pk", "team_id"))
    parts = dict(Device.objects.filter(milli__lt=WHOLE_MILLI).values_list("pk", "milli"))
    by_team: dict[int, list[Stay]] = {}
    held = (
        DeviceSegment.objects.filter(
            Q(end_s__gt=month.start_s) | Q(end_s__isnull=True),
            start_s__lt=month.end_s,
            bucket__in=sorted(str(bucket) for bucket in ALLOCATED),
        )
        .order_by()
        .values_list("project_id", "attempt_id", "device_id", "pool_id", "flavour")
        .annotate(first=Min("start_s"), last=Max(Coalesce("end_s", Value(month.end_s))))
    )
    for project, attempt, device, pool, flavour, first, last in held.iterator(20_000):
        if project in teams:
            milli = parts.get(device, WHOLE_MILLI)
            stay = Stay(attempt, device, str(pool), flavour, first, last, milli)
            by_team.setdefault(teams[project], []).append(stay)
    found: Intervals = {}
    for team in sorted(by_team):
        stays = by_team.pop(team)
        found |= borrowed(stays, team_account(str(team)), guarantees, month.start_s, month.end_s)
    return found
