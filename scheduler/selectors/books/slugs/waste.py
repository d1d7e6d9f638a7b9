"""What was held and did nothing, and what was reserved for nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    F,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce

from accounts.statements import Null
from scheduler.conf import load_conf
from scheduler.ledger.exact import ZERO
from scheduler.ledger.rating import ChargeKind
from scheduler.ledger.segments import ALLOCATED, Bucket
from scheduler.models import Attempt, DeviceSegment, UsageLine
from scheduler.models.exact import ExactAmount, ExactSum
from scheduler.selectors.books.frame import (
    Ask,
    Bars,
    Bound,
    Cells,
    Check,
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
from scheduler.selectors.books.seconds import (
    Readings,
    seconds_within,
)
from scheduler.selectors.books.slugs.wasted.asked import asked, idle_as, what_is_idle
from scheduler.selectors.books.slugs.wasted.hours import hours_of
from scheduler.selectors.books.slugs.wasted.longest import read_longest
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
    Column("longest_idle_s", "Longest idle h", Form.SECONDS),
    Column("readings", "Readings", Form.COUNT, is_detail=True),
    Column("waste", "Cost of waste", Form.AMOUNT, is_summed=True),
    Column("currency", "Currency", is_file_only=True),
)
_NONE_IDLE = (
    "Nothing idled as far as it was measured. What was not measured is not here; Use and waste "
    "says how much that is."
)
_RUNS = (ChargeKind.RUN, ChargeKind.RUN_BORROWED)


def _idle_waste(ask: Ask, scope: Scope) -> Sheet:
    """Attempts whose devices were used little over whole spans, the longest first, and what was
    reserved and not used.

    Idle seconds are running seconds x the share of readings in such spans; readings of before the
    retention as they were counted by the hour. The cost is that share of what the attempt was
    charged; of what was reserved, what it was charged.
    """
    books = scope.books(ask.period)
    start_s, end_s = books.month.start_s, end_of(books, ask)
    conf, windows = load_conf(), ((start_s, end_s),)
    mine = asked(ask, scope, windows, hours_of(windows, idle_as(conf)))
    spans, costs = _spans_and_costs(books, mine.segments, start_s, end_s)
    read = read_longest(mine.readings, conf)
    rows = _waste_rows(books, scope, read, spans, costs)
    rows += _reserved_rows(books, scope, spans)
    rows.sort(key=lambda row: (-(row[8] or 0), -(row[7] or 0), row[3] or 0))  # type: ignore[operator]
    sums, held = totals_of(_WASTE, rows), sum(spans.held.values())
    remarks = (what_is_idle(conf), *((_NONE_IDLE,) if held and not rows else ()))
    over = len([row for row in rows if row[8] > row[6]])  # type: ignore[operator]
    checks = [
        Bound("idle is at most allocated", sums["idle_gpu_seconds"], held, "GPU-s"),
        Check("sessions that idled for longer than they held GPUs", over, 0),
    ]
    return sheet_of(
        _WASTE, rows, ask, checks, sums, currency=books.currency, version=books.version,
        state=books.state, remarks=remarks,
    )  # fmt: skip


@dataclass(slots=True)
class _Spans:
    """GPU-seconds: held and running by attempt, reserved for nothing by (team, project or None);
    and what of the last was charged, by account."""

    held: dict[int | None, int] = field(default_factory=dict)
    running: dict[int | None, int] = field(default_factory=dict)
    reserved: dict[tuple[int, int | None], int] = field(default_factory=dict)
    kept: dict[str, Decimal] = field(default_factory=dict)


_ALLOCATED = frozenset(str(bucket) for bucket in ALLOCATED)
_NOBODY = Null(BigIntegerField())
_STEP = Decimal("0.000001")


def _spans_and_costs(
    books: Books, segments: QuerySet[DeviceSegment], start_s: int, end_s: int
) -> tuple[_Spans, dict[int, tuple[Decimal, int]]]:
    """Seconds by bucket and attempt, and what running was charged by attempt; one statement."""
    lines = UsageLine.objects.filter(
        period_id=books.rated,
        kind__in=[str(kind) for kind in (*_RUNS, ChargeKind.RESERVED_IDLE)],
    )
    names = ("what_", "attempt_", "team_", "project_")
    charged = (
        lines.order_by()
        .annotate(
            what_=Case(
                When(attempt__isnull=True, then=F("account")),
                default=Value("line"),
                output_field=CharField(),
            ),
            attempt_=F("attempt_id"),
        )
        .annotate(team_=_NOBODY, project_=_NOBODY)
        .values(*names)
        .annotate(amount_=ExactSum("amount"), seconds_=Sum("gpu_seconds"))
    )
    held = (
        segments.annotate(what_=F("bucket"), attempt_=F("attempt_id"))
        .annotate(team_=Coalesce("team_id", "project__team_id"))
        .annotate(project_=F("project_id"))
        .values(*names)
        .annotate(amount_=Null(ExactAmount()), seconds_=Sum(seconds_within(start_s, end_s)))
    )
    wanted = [*_ALLOCATED, str(Bucket.RESERVED_IDLE)]
    held, all_ = held.filter(bucket__in=wanted), (*names, "amount_", "seconds_")
    spans, costs = _Spans(), dict[int, tuple[Decimal, int]]()
    for what, attempt, team, project, amount, seconds in charged.values_list(*all_).union(
        held.values_list(*all_), all=True
    ):
        if what == "line":
            costs[attempt] = (amount, seconds)
        elif what.startswith("team:"):
            spans.kept[what] = amount
        elif what == Bucket.RESERVED_IDLE:
            spans.reserved[team, project] = spans.reserved.get((team, project), 0) + seconds
        else:
            spans.held[attempt] = spans.held.get(attempt, 0) + seconds
            if what == Bucket.RUN:
                spans.running[attempt] = spans.running.get(attempt, 0) + seconds
    return spans, costs


def _owners(counted: Mapping[int, Readings]) -> Iterator[tuple[Any, ...]]:
    """Of the attempts that idled; one statement for each so many."""
    idlers = sorted(pk for pk, read in counted.items() if read.idle)
    for first in range(0, len(idlers), _AT_ONCE):
        some = Attempt.objects.filter(pk__in=idlers[first : first + _AT_ONCE])
        yield from some.order_by("pk").values_list(*_OWNED)


_AT_ONCE = 20_000
_OWNED = (
    "pk", "job_id", "job__project_id", "job__project__team_id", "job__owner_id",
    "job__owner__username", "job__name",
)  # fmt: skip


def _waste_rows(
    books: Books,
    scope: Scope,
    counted: Mapping[int, Readings],
    spans: _Spans,
    costs: Mapping[int, tuple[Decimal, int]],
) -> list[Cells]:
    rows: list[Cells] = []
    for attempt, job, project, team, owner, username, name in _owners(counted):
        read = counted[attempt]
        account = f"team:{team}/project:{project}"
        place = scope.place(account)
        seconds = spans.running.get(attempt, 0) * read.idle // read.readings
        amount, charged = costs.get(attempt, (ZERO, 0))
        waste = (amount * seconds / charged).quantize(_STEP) if charged else None
        person = scope.person(owner, username, account)
        head = (place.team, place.project, person, attempt, job, name)
        idle = (spans.held.get(attempt, 0), 0, seconds, read.longest_s, read.readings)
        rows.append((*head, *idle, waste, books.currency))
    return rows


def _reserved_rows(books: Books, scope: Scope, spans: _Spans) -> list[Cells]:
    rows: list[Cells] = []
    for (team, project), seconds in spans.reserved.items():
        account = f"team:{team}" + (f"/project:{project}" if project else "")
        place, waste = scope.place(account), spans.kept.get(account)
        head = (place.team, place.project, "", None, None, "reserved and not used")
        waste = waste.quantize(_STEP) if waste is not None else None
        rows.append((*head, 0, seconds, 0, None, None, waste, books.currency))
    return rows


REPORTS = (
    Report(
        "idle-waste", "Idle and waste", "GPUs that were reserved or held, and did nothing.",
        "team × person × session", _WASTE, Who.BOOKS | Who.TEAMS | Who.OWN, _idle_waste,
        frozenset({"team", "project"}), ("what", "idle_gpu_seconds"),
        (Bars(("idle_gpu_seconds", "reserved_idle_gpu_seconds")),),
    ),
)  # fmt: skip
