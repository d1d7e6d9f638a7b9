"""What tables of jobs say beside the jobs: costs until now and an hour, and on which nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import BigIntegerField, DateTimeField, F, Max, Q, QuerySet, Sum, Value
from django.db.models.functions import Cast, Coalesce

from accounts.models import Rate, User
from accounts.selectors.rates import DECIDED, RateTable, general_rates
from accounts.statements import Null
from scheduler.models import Attempt, Job, JobSet, Placement, UsageEntry
from scheduler.money import cost_of, seconds_between, split_by_hour
from scheduler.selectors.jobs import may_read_inside
from scheduler.selectors.prices.seen import may_see_cost
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, NodeState

Span = tuple[datetime, datetime | None]
# More than are ever counted of an attempt, so that both fit into one number.
_ROOM = 100_000


@dataclass(frozen=True, slots=True)
class SoFar:
    """As of now: what `jobs` and `sets` have cost, by number, where the viewer may see it, and what
    live jobs and those of sets cost an hour (`hourly`, `sets_hourly`); the live jobs on a node that
    is `silent`, and the names of the `nodes` that live jobs are on; from when and, of jobs that
    have ended, until when the last attempt `ran` that has begun, and how many lines of the last
    one's logs say warn, where there are any and the viewer may read them (`warned`)."""

    jobs: Mapping[int, Decimal]
    sets: Mapping[int, Decimal]
    silent: frozenset[int]
    hourly: Mapping[int, Decimal]
    nodes: Mapping[int, set[str]]
    sets_hourly: Mapping[int, Decimal]
    ran: Mapping[int, Span]
    warned: Mapping[int, int]


def so_far(
    viewer: User, jobs: Iterable[Job], *, now: datetime, sets: Iterable[JobSet] = ()
) -> SoFar:
    """Two statements, however many jobs and sets; their projects are loaded."""
    jobs = list(jobs)
    shown = dict.fromkeys((j.pk for j in jobs if may_see_cost(viewer, j)), Decimal(0))
    of_sets = dict.fromkeys((s.pk for s in sets if may_see_cost(viewer, s)), Decimal(0))
    live = {job.pk for job in jobs if job.state in LIVE_JOB_STATES}
    over = {job.pk: job for job in jobs if job.state in FINAL_JOB_STATES}
    rates, ran, warned = _charged(shown, of_sets, over)
    warned = {pk: n for pk, n in warned.items() if may_read_inside(viewer, over[pk])}
    silent = set()
    hourly: dict[int, Decimal] = {}
    sets_hourly: dict[int, Decimal] = {}
    nodes: dict[int, set[str]] = {}
    for job, job_set, began, node, name, ended_at, *held in _open(live, of_sets):
        if job in live and began is not None:
            ran[job] = began, None
        if job in live and ended_at is None:
            if node in (NodeState.SILENT, NodeState.LOST):
                silent.add(job)
            nodes.setdefault(job, set()).add(name)
        an_hour = _an_hour(rates, now, *held)
        if job in live and job in shown:
            hourly[job] = hourly.get(job, Decimal(0)) + an_hour
        if job_set in of_sets:
            sets_hourly[job_set] = sets_hourly.get(job_set, Decimal(0)) + an_hour
        cost = sum((cost_of(*priced) for priced in _uncharged(rates, now, *held)), Decimal(0))
        for costs, number in ((shown, job), (of_sets, job_set)):
            if number in costs:
                costs[number] += cost
    return SoFar(shown, of_sets, frozenset(silent), hourly, nodes, sets_hourly, ran, warned)


def _charged(
    jobs: dict[int, Decimal], sets: dict[int, Decimal], over: Collection[int]
) -> tuple[RateTable, dict[int, Span], dict[int, int]]:
    """Adds to each what has its rows already; all prices, and of those that are `over` when they
    ran and how many warnings their logs have, come in the same statement."""
    rows = UsageEntry.objects.order_by()
    sums = [
        found.values(what_=Value(what), number_=F(path)).annotate(amount_=Sum("cost"))
        for what, path, found in (
            ("job", "job", rows.filter(job__in=list(jobs))),
            ("set", "job__job_set", rows.filter(job__job_set__in=list(sets))),
        )
    ]
    never, nobody = Null(DateTimeField()), Null(BigIntegerField())
    columns = (
        "what_", "number_", "amount_", "decided_", "model_", "from_", "until_", "rank_", "card_",
        "team_",
    )  # fmt: skip
    nothing = {"decided_": never, "model_": Value(""), "from_": never, "until_": never}
    nothing |= {"rank_": nobody, "card_": nobody, "team_": nobody}
    parts = [one.annotate(**nothing).values_list(*columns) for one in sums]
    found, teams, ran, warned = [], {}, dict[int, Span](), dict[int, int]()
    for what, number, amount, decided, *rate in (
        _prices().values_list(*columns).union(*parts, _spans(over).values_list(*columns), all=True)
    ):
        if what == "ran":
            if rate[1] is not None:
                ran[number] = rate[1], rate[2]
            if (count := rate[3] % _ROOM - 1) > 0:
                warned[number] = count
        elif what == "rate":
            found.append(((decided, number), _rate(amount, *rate[:-1])))
            if rate[-1]:
                teams[rate[-2]] = rate[-1]
        else:
            (jobs if what == "job" else sets)[number] += amount
    rates = RateTable((rate for _, rate in sorted(found, key=lambda one: one[0])), teams)
    return rates, ran, warned


def _prices() -> QuerySet[Rate, Any]:
    """All of them, as rows of the same columns."""
    return (
        general_rates()
        .order_by()
        .annotate(
            what_=Value("rate"),
            number_=F("pk"),
            amount_=Cast("price_per_gpu_hour", UsageEntry._meta.get_field("cost")),
            decided_=DECIDED,
            model_=F("device_model"),
            from_=F("valid_from"),
            until_=F("valid_until"),
            rank_=Cast("priority", BigIntegerField()),
            card_=F("card_id"),
            team_=F("card__team_id"),
        )
    )


def _spans(jobs: Collection[int]) -> QuerySet[Attempt, Any]:
    """When the last attempt of each that has begun ran, as rows of the prices' columns; in the
    place of a rank the number of the last attempt and, one more than they are, its warnings."""
    attempts = Attempt.objects.filter(job__in=list(jobs)).order_by()
    nobody = Null(BigIntegerField())
    told = Cast("number", BigIntegerField()) * _ROOM + Coalesce(F("warnings") + 1, 0)
    return attempts.values(what_=Value("ran"), number_=F("job")).annotate(
        amount_=Null(UsageEntry._meta.get_field("cost")),
        decided_=Null(DateTimeField()),
        model_=Value(""),
        from_=Max("started_at"),
        until_=Max("ended_at", filter=Q(started_at__isnull=False)),
        rank_=Max(told, output_field=BigIntegerField()),
        card_=nobody,
        team_=nobody,
    )


def _rate(
    price: Decimal, model: str, begin: Any, until: Any, priority: int, card: int | None
) -> Rate:
    rate = Rate(device_model=model, valid_from=begin, valid_until=until, priority=priority)
    rate.price_per_gpu_hour, rate.card_id = price, card
    return rate


def _open(live: set[int], sets: Collection[int]) -> Iterable[tuple[Any, ...]]:
    """Of the attempts that have not ended: job, set, begin, state and name of the node, end of the
    placement, and of each device held there from when to when, its model, and the last hour that
    has a row."""
    of_sets = Q(job_set__in=list(sets), state__in=LIVE_JOB_STATES)
    jobs = Job.objects.filter(Q(pk__in=live) | of_sets).order_by()
    if not live and not sets:
        return
    rows = (
        Placement.objects.filter(attempt__job__in=jobs.values("pk"), attempt__ended_at=None)
        .order_by()
        .values_list(
            "attempt__job",
            "attempt__job__job_set",
            "attempt__started_at",
            "node__state",
            "node__name",
            "ended_at",
        )
        .annotate(
            Max("allocations__usage__period_start"),
            device=F("allocations__device__model"),
            allocation=F("allocations"),
            begin=F("allocations__acquired_at"),
            until=F("allocations__released_at"),
            team=F("attempt__job__project__team"),
        )
    )
    for job, job_set, began, *node, latest, model, _, begin, until, team in rows:
        yield job, job_set, began, *node, begin, until, model, latest, team


def _an_hour(
    rates: RateTable,
    now: datetime,
    begin: datetime | None,
    until: datetime | None,
    model: str,
    latest: datetime | None,
    team: int,
) -> Decimal:
    """What the device costs an hour as long as it is held; nothing without one."""
    rate = rates.at(model, now, team) if begin is not None and until is None else None
    return rate.price_per_gpu_hour if rate else Decimal(0)


def _uncharged(
    rates: RateTable,
    now: datetime,
    begin: datetime | None,
    until: datetime | None,
    model: str,
    latest: datetime | None,
    team: int,
) -> Iterator[tuple[int, Decimal]]:
    """Seconds and price of each hour without a row: rows are written in order, without a gap."""
    if begin is None:  # it holds no device
        return
    for first, end in split_by_hour(begin, until or now):
        if latest is None or first > latest:
            rate = rates.at(model, first, team)
            yield seconds_between(first, end), rate.price_per_gpu_hour if rate else Decimal(0)


def costs_of_sets(viewer: User, sets: Iterable[JobSet], *, now: datetime) -> Mapping[int, Decimal]:
    """What all tasks of each set have cost until now, where the viewer may see it."""
    return so_far(viewer, (), sets=sets, now=now).sets
