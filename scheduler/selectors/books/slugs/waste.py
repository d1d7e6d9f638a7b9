"""What was held and did nothing, and what was reserved for nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    Count,
    F,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce

from scheduler.ledger.exact import ZERO
from scheduler.ledger.rating import ChargeKind
from scheduler.ledger.segments import ALLOCATED, Bucket
from scheduler.models import DeviceHour, DeviceSample, DeviceSegment, UsageLine
from scheduler.models.exact import ExactAmount, ExactSum
from scheduler.models.telemetry import IDLE_BELOW
from scheduler.selectors.books.frame import (
    Ask,
    Bound,
    Cells,
    Column,
    Drill,
    Form,
    Report,
    Sheet,
    Who,
    sheet_of,
    totals_of,
)
from scheduler.selectors.books.months import Books
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import seconds_within, within
from scheduler.selectors.books.slugs.lines import is_own
from scheduler.selectors.books.spans import end_of

_WASTE = (
    Column("team", "Team"),
    Column("project", "Project"),
    Column("person", "Person"),
    Column("attempt", "Attempt", Form.COUNT, drill=Drill("segments", {"attempt": "attempt"})),
    Column("job", "Job", Form.COUNT, is_job=True),
    Column("what", "What"),
    Column("allocated_gpu_seconds", "Allocated h", Form.SECONDS, is_summed=True),
    Column("reserved_idle_gpu_seconds", "Reserved idle h", Form.SECONDS, is_summed=True),
    Column("idle_gpu_seconds", "Allocated, idle h", Form.SECONDS, is_summed=True),
    Column("readings", "Readings", Form.COUNT),
    Column("waste", "Cost of waste", Form.AMOUNT, is_summed=True),
    Column("currency", "Currency", is_file_only=True),
)
_RUNS = (ChargeKind.RUN, ChargeKind.RUN_BORROWED)


def _idle_waste(ask: Ask, scope: Scope) -> Sheet:
    """Attempts whose devices were read below five per cent, the longest first.

    Idle seconds are running seconds x the share of idle readings, those of before the retention as
    they were counted by the hour. The cost is that share of what the attempt was charged.
    """
    books = scope.books(ask.period)
    start_s, end_s = books.month.start_s, end_of(books, ask)
    segments = within(start_s, end_s)
    window = (datetime.fromtimestamp(start_s, UTC), datetime.fromtimestamp(end_s, UTC))
    samples = DeviceSample.objects.filter(
        attempt__isnull=False, at__gte=window[0], at__lt=window[1]
    )
    hours = DeviceHour.objects.filter(
        attempt__isnull=False, hour__gte=window[0], hour__lt=window[1]
    )
    if is_own(scope):
        segments = segments.filter(attempt__job__owner=scope.viewer)
        samples = samples.filter(attempt__job__owner=scope.viewer)
        hours = hours.filter(attempt__job__owner=scope.viewer)
    else:
        accounts = scope.accounts(ask.team, ask.project)
        if accounts is not None:
            wanted = [int(a.partition("project:")[2]) for a in accounts if "project:" in a]
            teams = [int(a.removeprefix("team:")) for a in accounts if "/" not in a]
            segments = segments.filter(Q(project_id__in=wanted) | Q(team_id__in=teams))
            samples = samples.filter(attempt__job__project_id__in=wanted)
            hours = hours.filter(attempt__job__project_id__in=wanted)
    spans, costs = _spans_and_costs(books, segments, start_s, end_s)
    rows = _waste_rows(books, scope, _readings(samples, hours), spans, costs)
    rows += _reserved_rows(books, scope, spans)
    rows.sort(key=lambda row: (-(row[8] or 0), -(row[7] or 0), row[3] or 0))  # type: ignore[operator]
    idle = totals_of(_WASTE, rows)["idle_gpu_seconds"]
    checks = [Bound("idle is at most allocated", idle, sum(spans.held.values()), "GPU-s")]
    remark = "Idle: below 5 % of use in a reading."
    return sheet_of(
        _WASTE, rows, ask, checks, currency=books.currency, version=books.version,
        state=books.state, remarks=(remark,),
    )  # fmt: skip


@dataclass(slots=True)
class _Spans:
    """GPU-seconds: held and running by attempt, reserved for nothing by (team, project or None)."""

    held: dict[int | None, int] = field(default_factory=dict)
    running: dict[int | None, int] = field(default_factory=dict)
    reserved: dict[tuple[int, int | None], int] = field(default_factory=dict)


_ALLOCATED = frozenset(str(bucket) for bucket in ALLOCATED)
_NOBODY = Cast(Value(None), BigIntegerField())


def _spans_and_costs(
    books: Books, segments: QuerySet[DeviceSegment], start_s: int, end_s: int
) -> tuple[_Spans, dict[int, tuple[Decimal, int]]]:
    """Seconds by bucket and attempt, and what running was charged by attempt; one statement."""
    lines = UsageLine.objects.filter(
        period_id=books.period.pk if books.period else 0,
        kind__in=[str(k) for k in _RUNS],
        attempt__isnull=False,
    )
    names = ("what_", "attempt_", "team_", "project_")
    charged = (
        lines.order_by()
        .annotate(what_=Cast(Value("line"), CharField()), attempt_=F("attempt_id"))
        .annotate(team_=_NOBODY, project_=_NOBODY)
        .values(*names)
        .annotate(amount_=ExactSum("amount"), seconds_=Sum("gpu_seconds"))
    )
    held = (
        segments.annotate(what_=F("bucket"), attempt_=F("attempt_id"))
        .annotate(team_=Coalesce("team_id", "project__team_id"))
        .annotate(project_=F("project_id"))
        .values(*names)
        .annotate(
            amount_=Cast(Value(None), ExactAmount()), seconds_=Sum(seconds_within(start_s, end_s))
        )
    )
    wanted = [*_ALLOCATED, str(Bucket.RESERVED_IDLE)]
    held, all_ = held.filter(bucket__in=wanted), (*names, "amount_", "seconds_")
    spans, costs = _Spans(), dict[int, tuple[Decimal, int]]()
    for what, attempt, team, project, amount, seconds in charged.values_list(*all_).union(
        held.values_list(*all_), all=True
    ):
        if what == "line":
            costs[attempt] = (amount, seconds)
        elif what == Bucket.RESERVED_IDLE:
            spans.reserved[team, project] = spans.reserved.get((team, project), 0) + seconds
        else:
            spans.held[attempt] = spans.held.get(attempt, 0) + seconds
            if what == Bucket.RUN:
                spans.running[attempt] = spans.running.get(attempt, 0) + seconds
    return spans, costs


def _readings(
    samples: QuerySet[DeviceSample], hours: QuerySet[DeviceHour]
) -> dict[tuple[Any, ...], tuple[int, int]]:
    """How many readings each attempt has, and how many of them idle; one statement."""
    names = ("attempt__job__owner_id", "attempt__job__owner__username", "attempt__job__name")
    place = ("attempt__job__project_id", "attempt__job__project__team_id")
    fields = ("attempt_id", "attempt__job_id", *place, *names)
    # Rolled up before idle readings were counted: an hour is what it was on average.
    on_average = Case(When(gpu_percent__lt=IDLE_BELOW, then=F("count")), default=Value(0))
    raw = samples.order_by().values_list(*fields)
    old = hours.order_by().values_list(*fields)
    rows = raw.annotate(
        readings_=Count("pk"), idle_=Count("pk", filter=Q(gpu_percent__lt=IDLE_BELOW))
    ).union(old.annotate(readings_=Sum("count"), idle_=Sum(Coalesce("idle", on_average))), all=True)
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for *key, readings, idle in rows:
        before = found.get(tuple(key), (0, 0))
        found[tuple(key)] = (before[0] + readings, before[1] + idle)
    return found


def _waste_rows(
    books: Books,
    scope: Scope,
    counted: Mapping[tuple[Any, ...], tuple[int, int]],
    spans: _Spans,
    costs: Mapping[int, tuple[Decimal, int]],
) -> list[Cells]:
    rows: list[Cells] = []
    for key, (readings, idle) in counted.items():
        if not idle:
            continue
        attempt, job, project, team, owner, username, name = key
        account = f"team:{team}/project:{project}"
        place = scope.place(account)
        seconds = spans.running.get(attempt, 0) * idle // readings
        amount, charged = costs.get(attempt, (ZERO, 0))
        waste = (amount * seconds / charged).quantize(Decimal("0.000001")) if charged else None
        person = scope.person(owner, username, account)
        head = (place.team, place.project, person, attempt, job, name)
        rows.append(
            (*head, spans.held.get(attempt, 0), 0, seconds, readings, waste, books.currency)
        )
    return rows


def _reserved_rows(books: Books, scope: Scope, spans: _Spans) -> list[Cells]:
    rows: list[Cells] = []
    for (team, project), seconds in spans.reserved.items():
        place = scope.place(f"team:{team}" + (f"/project:{project}" if project else ""))
        head = (place.team, place.project, "", None, None, "reserved and not used")
        rows.append((*head, 0, seconds, 0, None, None, books.currency))
    return rows


REPORTS = (
    Report(
        "idle-waste", "Idle and waste", "GPUs that were reserved or held, and did nothing.",
        "team × person × session", _WASTE, Who.BOOKS | Who.TEAMS | Who.OWN, _idle_waste,
        frozenset({"team", "project"}), ("what", "idle_gpu_seconds"),
    ),
)  # fmt: skip
