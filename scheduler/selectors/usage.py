"""What jobs, projects and teams cost. Rows are summed; nothing is priced anew, except the open
second hand of a device that is still held, which uses the very function of the accrual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet, Sum, prefetch_related_objects

from accounts.errors import Forbidden, Invalid
from accounts.models import Project, Rate, User
from accounts.permissions import projects_visible_to
from accounts.selectors.rates import RateTable, rates_over
from scheduler.conf import load_conf
from scheduler.models import Allocation, Attempt, Job, UsageEntry
from scheduler.money import cost_of, seconds_between, split_by_hour
from scheduler.selectors.prices.seen import may_see_cost
from scheduler.selectors.saved.scopes import EVERYTHING, Scope
from scheduler.selectors.sharing.use import (
    MODEL,
    NAMES,
    PERSON,
    counted_upto,
    jobs_of_use,
    parts_of_use,
)
from scheduler.states import FINAL_JOB_STATES

# Lengths of time that costs are told by: the day on which that of a day begins.
TIMES: dict[str, Callable[[date], date]] = {
    "day": lambda day: day,
    "week": lambda day: day - timedelta(days=day.weekday()),
    "month": lambda day: day.replace(day=1),
}


@dataclass(frozen=True, slots=True)
class CostLine:
    """One device of one attempt: seconds x price = cost. `is_open`: still counting."""

    attempt_number: int
    node: str
    rank: int
    device_uuid: str
    device_index: int
    device_model: str
    is_simulated: bool
    gpu_seconds: int
    unit_price: Decimal
    cost: Decimal
    refunded: Decimal
    is_open: bool


@dataclass(frozen=True, slots=True)
class JobCost:
    """`cost` is exact to ten decimals; `hourly` is what it costs per hour now."""

    gpu_seconds: int
    cost: Decimal
    refunded: Decimal
    currency: str
    hourly: Decimal
    lines: tuple[CostLine, ...]
    is_final: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class CostRow:
    """One group of a report; `key` is what it is grouped by."""

    key: str
    gpu_seconds: int
    cost: Decimal
    jobs: int


def job_cost(viewer: User, job: Job, *, now: datetime) -> JobCost:
    """What the job has cost until now; raises Forbidden when the viewer may not see costs."""
    if not may_see_cost(viewer, job):
        raise Forbidden("Your role may see this job, but not what it costs.")
    return _cost_of_job(job, now)


def _unaccrued(
    allocation: Allocation, rates: RateTable, now: datetime, team: int
) -> tuple[int, Decimal]:
    """Seconds and cost of the periods that have no row yet; none once its attempt is over."""
    if allocation.placement.attempt.ended_at is not None:
        return 0, Decimal(0)
    known = {entry.period_start for entry in allocation.usage.all()}
    seconds, cost = 0, Decimal(0)
    for begin, until in split_by_hour(allocation.acquired_at, allocation.released_at or now):
        if begin not in known:
            rate = rates.at(allocation.device.model, begin, team)
            span = seconds_between(begin, until)
            seconds += span
            cost += cost_of(span, rate.price_per_gpu_hour if rate else Decimal(0))
    return seconds, cost


def cost_of_attempts(
    viewer: User, job: Job, attempts: Sequence[Attempt], *, now: datetime
) -> JobCost:
    """The same where all its attempts are there with what they held, by rank and index."""
    if not may_see_cost(viewer, job):
        raise Forbidden("Your role may see this job, but not what it costs.")
    held = [
        allocation
        for attempt in attempts
        for placement in attempt.placements.all()
        for allocation in placement.allocations.all()
    ]
    prefetch_related_objects(held, "usage")
    return _cost_of(job, held, rates_over({a.device.model for a in held}), now)


def _cost_of_job(job: Job, now: datetime) -> JobCost:
    return costs_until([job], now=now)[job.pk]


def costs_until(jobs: Sequence[Job], *, now: datetime) -> dict[int, JobCost]:
    """By id what each of the jobs has cost until now, for nobody to see; three queries."""
    allocations = (
        Allocation.objects.filter(placement__attempt__job__in=[job.pk for job in jobs])
        .select_related("placement__attempt", "placement__node", "device")
        .defer("placement__attempt__code_patch")
        .prefetch_related("usage")
        .order_by("placement__attempt__number", "placement__rank", "device__index")
    )
    held: dict[int, list[Allocation]] = {job.pk: [] for job in jobs}
    for one in allocations:
        held[one.placement.attempt.job_id].append(one)
    rates = rates_over({a.device.model for its in held.values() for a in its})
    return {job.pk: _cost_of(job, held[job.pk], rates, now) for job in jobs}


def _cost_of(job: Job, held: Sequence[Allocation], rates: RateTable, now: datetime) -> JobCost:
    team = job.project.team_id
    lines = tuple(
        _line(a, rates.at(a.device.model, a.acquired_at, team), *_unaccrued(a, rates, now, team))
        for a in held
    )
    refunded = sum((line.refunded for line in lines), Decimal(0))
    return JobCost(
        gpu_seconds=sum(line.gpu_seconds for line in lines),
        cost=sum((line.cost for line in lines), Decimal(0)) - refunded,
        refunded=refunded,
        currency=load_conf().currency,
        hourly=sum((line.unit_price for line in lines if line.is_open), Decimal(0)),
        lines=lines,
        is_final=job.state in FINAL_JOB_STATES,
        at=now,
    )


def _line(allocation: Allocation, rate: Rate | None, seconds: int, cost: Decimal) -> CostLine:
    """One line: rows already charged plus the `seconds` and `cost` that are still running."""
    entries = list(allocation.usage.all())
    charged = [e for e in entries if e.kind == UsageEntry.Kind.ACCRUAL]
    refunds = [e for e in entries if e.kind == UsageEntry.Kind.ADJUSTMENT]
    price = rate.price_per_gpu_hour if rate else Decimal(0)
    return CostLine(
        attempt_number=allocation.placement.attempt.number,
        node=allocation.placement.node.name,
        rank=allocation.placement.rank,
        device_uuid=allocation.device.uuid,
        device_index=allocation.device.index,
        device_model=allocation.device.model,
        is_simulated=allocation.device.is_simulated,
        gpu_seconds=seconds + sum(e.gpu_seconds for e in entries),
        unit_price=charged[-1].unit_price if charged else price,
        cost=cost + sum((e.cost for e in charged), Decimal(0)),
        refunded=-sum((e.cost for e in refunds), Decimal(0)),
        is_open=allocation.released_at is None,
    )


def costs_by(
    viewer: User, by: str, *, start: datetime, end: datetime, within: Scope = EVERYTHING
) -> tuple[list[CostRow], CostRow]:
    """Costs of the projects whose costs the viewer may see, grouped, dearest first; and the total.

    `by` is one of NAMES. The total is summed from the rows themselves, so it always ties.
    """
    if by not in NAMES:
        raise Invalid(f"Group by one of {', '.join(NAMES)}.", field="by")
    if start >= end:
        raise Invalid("The period must begin before it ends.", field="from")
    projects = projects_visible_to(viewer, "view_costs").filter(within.part_of())
    rows = _rows(projects, by, start, end)
    rows.sort(key=lambda row: (-row.cost, row.key))
    total = CostRow(
        key="total",
        gpu_seconds=sum(row.gpu_seconds for row in rows),
        cost=sum((row.cost for row in rows), Decimal(0)),
        jobs=sum(row.jobs for row in rows),
    )
    return rows, total


def costs_over_time(
    viewer: User, by: str, *, start: datetime, end: datetime, within: Scope = EVERYTHING
) -> tuple[list[CostRow], CostRow]:
    """The same by `day`, `week` (from Monday) or `month`, in UTC, the latest first; `key` is the
    ISO day on which it begins. How many jobs there were is not counted: most have several days.
    """
    if by not in TIMES:
        raise Invalid(f"Group by one of {', '.join(TIMES)}.", field="by")
    if start >= end:
        raise Invalid("The period must begin before it ends.", field="from")
    projects = projects_visible_to(viewer, "view_costs").filter(within.part_of())
    span: dict[str, Any] = {"since": start, "until": end, "counted": counted_upto()}
    first, *others = [
        part.order_by().values_list("on_day", "unit_price").annotate(seconds=Sum("gpu_seconds"))
        for part in parts_of_use(projects, **span)
    ]
    used: dict[date, tuple[int, Decimal]] = {}
    for moment, price, seconds in first.union(*others, all=True) if others else first:
        begin = TIMES[by](moment.astimezone(UTC).date())
        so_far = used.get(begin, (0, Decimal(0)))
        used[begin] = so_far[0] + seconds, so_far[1] + cost_of(seconds, price)
    rows = [CostRow(f"{day}", *used[day], jobs=0) for day in sorted(used, reverse=True)]
    cost = sum((row.cost for row in rows), Decimal(0))
    return rows, CostRow("total", sum(row.gpu_seconds for row in rows), cost, jobs=0)


def _rows(projects: QuerySet[Project], by: str, start: datetime, end: datetime) -> list[CostRow]:
    """From sums of days and what came after them; a team is its projects."""
    counted = counted_upto()
    span: dict[str, Any] = {"since": start, "until": end, "counted": counted, "by": by}
    whose = "whose" if by in (PERSON, MODEL) else "project_id"
    first, *others = [
        part.order_by().values_list(whose, "unit_price").annotate(seconds=Sum("gpu_seconds"))
        for part in parts_of_use(projects, **span)
    ]
    used: dict[Any, tuple[int, Decimal]] = {}
    for key, price, seconds in first.union(*others, all=True) if others else first:
        so_far = used.get(key, (0, Decimal(0)))
        used[key] = so_far[0] + seconds, so_far[1] + cost_of(seconds, price)
    jobs: Counter[tuple[Any, tuple[str, ...]]] = Counter()
    for key, names, charged in jobs_of_use(projects, **span):
        jobs[key, names] += charged
    rows: dict[str, CostRow] = {}
    for (key, names), charged in jobs.items():
        seconds, cost = used.get(key, (0, Decimal(0)))
        name = "/".join(names)
        known = rows.get(name, CostRow(name, 0, Decimal(0), 0))
        rows[name] = CostRow(
            name, known.gpu_seconds + seconds, known.cost + cost, known.jobs + charged
        )
    return list(rows.values())
