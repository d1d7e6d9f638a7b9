"""What devices did: day by day, second by second of an attempt, and what was held for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q, Sum

from accounts.errors import NotFound
from scheduler.ledger.exact import ZERO
from scheduler.ledger.rating import ChargeKind
from scheduler.ledger.segments import ALLOCATED, IN_SERVICE, Bucket
from scheduler.models import DeviceSample, UsageLine
from scheduler.models.exact import ExactSum
from scheduler.selectors.books.frame import (
    Ask,
    Bound,
    Cells,
    Check,
    Column,
    Drill,
    Form,
    Report,
    Row,
    Sheet,
    Who,
    sheet_of,
    totals_of,
)
from scheduler.selectors.books.months import Books, books_of
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import added_up, by_day, day_of, within
from scheduler.selectors.books.slugs.lines import is_own

_BUCKETS = tuple(bucket for bucket in Bucket if bucket is not Bucket.OUT)
_CAPACITY = (
    Column("day", "Day", Form.DAY),
    Column("pool", "Pool"),
    Column("flavour", "GPU"),
    Column("in_service_gpu_seconds", "In service h", Form.SECONDS, is_summed=True),
    *(
        Column(f"{b}_gpu_seconds", f"{b.replace('_', ' ').capitalize()} h", Form.SECONDS, True)
        for b in _BUCKETS
    ),
    Column("used_percent", "Used", Form.PERCENT),
)


def end_of(books: Books, ask: Ask) -> int:
    """Where the month's seconds end: now, while it lasts; a closed month is over."""
    if books.version or not ask.now_s:
        return books.month.end_s
    return min(books.month.end_s, ask.now_s)


def _capacity(ask: Ask, scope: Scope) -> Sheet:
    books = books_of(ask.period)
    start_s, end_s = books.month.start_s, end_of(books, ask)
    segments = within(start_s, end_s).exclude(bucket=Bucket.OUT)
    table: dict[tuple[int, str, str], dict[str, int]] = {}
    for key, seconds in by_day(segments, start_s, end_s, "pool__name", "flavour", "bucket").items():
        day, pool, flavour, bucket = key
        table.setdefault((day, pool, flavour), {})[bucket] = seconds
    rows: list[Cells] = []
    for (day, pool, flavour), found in sorted(table.items()):
        spans = [found.get(bucket, 0) for bucket in _BUCKETS]
        run, all_of_it = found.get(Bucket.RUN, 0), sum(spans)
        used = (Decimal(run) * 100 / all_of_it).quantize(Decimal("0.01")) if all_of_it else None
        rows.append((day_of(day), pool, flavour, all_of_it, *spans, used))
    totals = totals_of(_CAPACITY, rows)
    parts = sum(totals[f"{bucket}_gpu_seconds"] for bucket in IN_SERVICE)
    stored = sum(added_up(segments, start_s, end_s, "bucket").values())
    in_service = totals["in_service_gpu_seconds"]
    checks = [
        Check("allocated + idle + unallocated = in service", parts, in_service, "GPU-s"),
        Check("equals segments", in_service, stored, "GPU-s"),
    ]
    if books.close is not None:
        closed = sum(s for bucket, s in books.close.seconds.items() if bucket != Bucket.OUT)
        checks.append(Check("equals what was closed", in_service, closed, "GPU-s"))
    return sheet_of(_CAPACITY, rows, ask, checks, version=books.version, state=books.state)


_SEGMENTS = (
    Column("segment", "Segment", Form.COUNT, is_file_only=True),
    Column("node", "Node"),
    Column("gpu", "GPU", Form.COUNT),
    Column("flavour", "Model"),
    Column("bucket", "Bucket"),
    Column("cause", "Why it began"),
    Column("start", "Start", Form.MOMENT),
    Column("end", "End", Form.MOMENT),
    Column("gpu_seconds", "GPU-seconds", Form.SECONDS, is_summed=True),
)


def _segments(ask: Ask, scope: Scope) -> Sheet:
    """The seconds an attempt held devices in a month, as they were written."""
    books = books_of(ask.period)
    start_s, end_s = books.month.start_s, end_of(books, ask)
    found = within(start_s, end_s).filter(attempt_id=ask.attempt)
    if is_own(scope):
        found = found.filter(attempt__job__owner=scope.viewer)
    elif not scope.is_all:
        found = found.filter(attempt__job__project__team__in=scope.teams)
    if not found.exists():
        raise NotFound("This attempt held nothing in that month, or is not yours to see.")
    held = sum(added_up(found, start_s, end_s, "bucket").values())

    def rows(after: int) -> Iterator[Row]:
        for row in (
            found.filter(pk__gt=after).select_related("device__node").order_by("pk").iterator(5_000)
        ):
            until = end_s if row.end_s is None else min(row.end_s, end_s)
            began = max(row.start_s, start_s)
            place = (row.device.node.name, row.device.index, row.flavour)
            moments = (datetime.fromtimestamp(each, UTC) for each in (began, until))
            what = (row.bucket, row.cause)
            yield Row(row.pk, (row.pk, *place, *what, *moments, until - began))

    checks = []
    if books.period is not None and books.version:
        lines = UsageLine.objects.filter(period=books.period, attempt_id=ask.attempt)
        rated = lines.aggregate(seconds=Sum("gpu_seconds"))["seconds"] or 0
        checks.append(Check("equals rated lines", held, rated, "GPU-s"))
    return Sheet(rows, {"gpu_seconds": held}, checks, version=books.version, state=books.state)


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
IDLE_BELOW = 5.0
_RUNS = (ChargeKind.RUN, ChargeKind.RUN_BORROWED)


def _idle_waste(ask: Ask, scope: Scope) -> Sheet:
    """Attempts whose devices were read below five per cent, the longest first.

    Idle seconds are running seconds x the share of idle readings; attempts whose readings are
    past the retention are not in it. The cost is that share of what the attempt was charged.
    """
    books = books_of(ask.period)
    start_s, end_s = books.month.start_s, end_of(books, ask)
    segments = within(start_s, end_s)
    window = (datetime.fromtimestamp(start_s, UTC), datetime.fromtimestamp(end_s, UTC))
    samples = DeviceSample.objects.filter(
        attempt__isnull=False, at__gte=window[0], at__lt=window[1]
    )
    if is_own(scope):
        segments = segments.filter(attempt__job__owner=scope.viewer)
        samples = samples.filter(attempt__job__owner=scope.viewer)
    else:
        accounts = scope.accounts(ask.team, ask.project)
        if accounts is not None:
            wanted = [int(a.partition("project:")[2]) for a in accounts if "project:" in a]
            segments = segments.filter(project_id__in=wanted)
            samples = samples.filter(attempt__job__project_id__in=wanted)
    held = added_up(
        segments.filter(bucket__in=[str(b) for b in ALLOCATED]), start_s, end_s, "attempt_id"
    )
    running = added_up(segments.filter(bucket=Bucket.RUN), start_s, end_s, "attempt_id")
    rows = _waste_rows(books, scope, samples, held, running)
    rows += _reserved_rows(books, scope, segments, start_s, end_s)
    rows.sort(key=lambda row: (-(row[8] or 0), -(row[7] or 0), row[3] or 0))  # type: ignore[operator]
    idle = totals_of(_WASTE, rows)["idle_gpu_seconds"]
    checks = [Bound("idle is at most allocated", idle, sum(held.values()), "GPU-s")]
    remark = "Idle: below 5 % in the readings that are still kept."
    return sheet_of(
        _WASTE, rows, ask, checks, currency=books.currency, version=books.version,
        state=books.state, remarks=(remark,),
    )  # fmt: skip


def _waste_rows(
    books: Books, scope: Scope, samples: Any, held: dict[Any, int], running: dict[Any, int]
) -> list[Cells]:
    costs: dict[int, tuple[Decimal, int]] = {}
    if books.version:
        lines = UsageLine.objects.filter(period=books.period, kind__in=[str(k) for k in _RUNS])
        for attempt, amount, seconds in (
            lines.order_by()
            .values_list("attempt_id")
            .annotate(amount_=ExactSum("amount"), seconds_=Sum("gpu_seconds"))
        ):
            costs[attempt] = (amount, seconds)
    names = ("attempt__job__owner_id", "attempt__job__owner__username", "attempt__job__name")
    fields = ("attempt_id", "attempt__job_id", "attempt__job__project_id", *names)
    read = samples.order_by().values_list(*fields, "attempt__job__project__team_id")
    counted = read.annotate(
        readings=Count("pk"), idle=Count("pk", filter=Q(gpu_percent__lt=IDLE_BELOW))
    )
    rows: list[Cells] = []
    for attempt, job, project, owner, username, name, team, readings, idle in counted:
        if not idle:
            continue
        account = f"team:{team}/project:{project}"
        place = scope.place(account)
        seconds = running.get((attempt,), 0) * idle // readings
        amount, charged = costs.get(attempt, (ZERO, 0))
        waste = (amount * seconds / charged).quantize(Decimal("0.000001")) if charged else None
        person = scope.person(owner, username, account)
        head = (place.team, place.project, person, attempt, job, name)
        rows.append((*head, held.get((attempt,), 0), 0, seconds, readings, waste, books.currency))
    return rows


def _reserved_rows(
    books: Books, scope: Scope, segments: Any, start_s: int, end_s: int
) -> list[Cells]:
    found = added_up(
        segments.filter(bucket=Bucket.RESERVED_IDLE),
        start_s,
        end_s,
        "project__team_id",
        "project_id",
    )
    rows: list[Cells] = []
    for (team, project), seconds in found.items():
        place = scope.place(f"team:{team}/project:{project}")
        head = (place.team, place.project, "", None, None, "reserved and not used")
        rows.append((*head, 0, seconds, 0, None, None, books.currency))
    return rows


REPORTS = (
    Report(
        "capacity", "Capacity", "Where every second of every GPU in service went.",
        "day × pool × flavour", _CAPACITY, Who.BOOKS | Who.OPERATORS, _capacity,
    ),
    Report(
        "idle-waste", "Idle and waste", "GPUs that were reserved or held, and did nothing.",
        "team × person × session", _WASTE, Who.BOOKS | Who.TEAMS | Who.OWN, _idle_waste,
        frozenset({"team", "project"}), ("what", "idle_gpu_seconds"),
    ),
    Report(
        "segments", "Segments", "The device seconds behind an attempt's lines.", "segment",
        _SEGMENTS, Who.BOOKS | Who.TEAMS | Who.OWN, _segments, frozenset({"attempt"}),
        is_streamed=True, is_trail=True,
    ),
)  # fmt: skip
