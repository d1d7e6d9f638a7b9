"""What devices did: day by day, and second by second of an attempt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.db.models import Q, QuerySet, Sum

from accounts.errors import Invalid, NotFound
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import DAY_S
from scheduler.ledger.segments import ALLOCATED, IDLE, IN_SERVICE, UNALLOCATED, Bucket
from scheduler.ledger.shares import IdlePolicy
from scheduler.models import DeviceSegment, UsageLine
from scheduler.selectors.books.adding import Adds
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
    Row,
    Sheet,
    Who,
    sheet_of,
    totals_of,
)
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import added_up, by_day, day_of, within
from scheduler.selectors.books.slugs.lines import day_asked, is_own
from scheduler.selectors.books.spans import SPAN, span_of, standing_of
from scheduler.selectors.books.sums.ratios import share
from scheduler.selectors.books.terms import terms_of
from scheduler.states import END_RULES

_BUCKETS = tuple(bucket for bucket in Bucket if bucket is not Bucket.OUT)
_ROLLED_UP: dict[str, tuple[Bucket, ...]] = {
    "allocated": tuple(sorted(ALLOCATED)),
    "idle": tuple(sorted(IDLE)),
    "unallocated": tuple(sorted(UNALLOCATED)),
    **{str(bucket): (bucket,) for bucket in _BUCKETS},
}
_OF_A_DAY = {"day": "day", "pool": "pool", "flavour": "flavour"}
_CAPACITY = (
    Column("day", "Day", Form.DAY),
    Column("pool", "Pool"),
    Column("flavour", "GPU"),
    Column(
        "in_service_gpu_seconds", "In service h", Form.SECONDS, True, Drill("segments", _OF_A_DAY)
    ),
    *(
        Column(
            f"{b}_gpu_seconds", f"{b.replace('_', ' ').capitalize()} h", Form.SECONDS, True,
            Drill("segments", _OF_A_DAY, {"bucket": str(b)}),
        )
        for b in _BUCKETS
    ),
    Column(
        "used_percent",
        "Used",
        Form.PERCENT,
        share_of=(f"{Bucket.RUN}_gpu_seconds", "in_service_gpu_seconds"),
    ),
)  # fmt: skip

# By the names of its columns, those that are left out where they are empty as well.
_NAMES = [bucket.replace("_", " ") for bucket in _BUCKETS]
_IN_SERVICE = f"in service is {', '.join(_NAMES[:-1])} and {_NAMES[-1]}"


def _capacity(ask: Ask, scope: Scope) -> Sheet:
    books = scope.books(ask.period)
    span = span_of(books, ask)
    start_s, end_s = span.start_s, span.end_s
    segments = within(start_s, end_s).exclude(bucket=Bucket.OUT)
    table: dict[tuple[int, str, str], dict[str, int]] = {}
    for key, seconds in by_day(segments, start_s, end_s, "pool__name", "flavour", "bucket").items():
        day, pool, flavour, bucket = key
        table.setdefault((day, pool, flavour), {})[bucket] = seconds
    rows: list[Cells] = []
    for (day, pool, flavour), found in sorted(table.items()):
        spans = [found.get(bucket, 0) for bucket in _BUCKETS]
        run, all_of_it = found.get(Bucket.RUN, 0), sum(spans)
        rows.append((day_of(day), pool, flavour, all_of_it, *spans, share(run, all_of_it)))
    totals = totals_of(_CAPACITY, rows)
    parts = sum(totals[f"{bucket}_gpu_seconds"] for bucket in IN_SERVICE)
    stored = sum(added_up(segments, start_s, end_s, "bucket").values())
    in_service = totals["in_service_gpu_seconds"]
    checks = [
        Check(_IN_SERVICE, parts, in_service, "GPU-s"),
        Check("equals segments", in_service, stored, "GPU-s"),
    ]
    if books.close is not None and span.is_month:
        closed = sum(s for bucket, s in books.close.seconds.items() if bucket != Bucket.OUT)
        checks.append(Check("equals what was closed", in_service, closed, "GPU-s"))
    return sheet_of(_CAPACITY, rows, ask, checks, totals, **standing_of(books, span))


_SEGMENTS = (
    Column("segment", "Segment", Form.COUNT, is_file_only=True),
    Column("node", "Node"),
    Column("gpu", "GPU", Form.COUNT),
    Column("flavour", "Model"),
    Column("bucket", "Bucket"),
    Column("cause", "Why it began"),
    Column("attempt", "Attempt", Form.COUNT),
    Column("job", "Job", Form.COUNT, is_job=True),
    Column("start", "Start", Form.MOMENT),
    Column("end", "End", Form.MOMENT),
    Column("gpu_seconds", "GPU-seconds", Form.SECONDS, is_summed=True),
)


_NOT_BILLABLE = [str(reason) for reason, rule in END_RULES.items() if not rule.billable]


def _segments(ask: Ask, scope: Scope) -> Sheet:
    """Device seconds as they were written, cut to the month, to a day of it, or to days."""
    books = scope.books(ask.period)
    span = span_of(books, ask)
    start_s, end_s = span.start_s, span.end_s
    if ask.day:
        start_s = day_asked(books, ask)
        end_s = max(start_s, min(end_s, start_s + DAY_S))
    found = _asked(within(start_s, end_s).exclude(bucket=Bucket.OUT), ask, scope)
    if ask.attempt and not found.exists():
        raise NotFound("This attempt held nothing in that month, or is not yours to see.")
    held = sum(added_up(found, start_s, end_s, "bucket").values())

    def rows(after: int) -> Iterator[Row]:
        for row in (
            found.filter(pk__gt=after)
            .select_related("device__node", "attempt")
            .order_by("pk")
            .iterator(5_000)
        ):
            until = end_s if row.end_s is None else min(row.end_s, end_s)
            began = max(row.start_s, start_s)
            place = (row.device.node.name, row.device.index, row.flavour)
            moments = (datetime.fromtimestamp(each, UTC) for each in (began, until))
            job = row.attempt.job_id if row.attempt else None
            what = (row.bucket, row.cause, row.attempt_id, job)
            yield Row(row.pk, (row.pk, *place, *what, *moments, until - began))

    checks = []
    if books.period is not None and books.version and set(ask.filters) == {"attempt"}:
        lines = UsageLine.objects.filter(period=books.period, attempt_id=ask.attempt)
        rated = lines.aggregate(seconds=Sum("gpu_seconds"))["seconds"] or 0
        checks.append(
            Bound("rated lines are at most held", rated, held, "GPU-s")
            if _is_shared_out(found, books.month)
            else Check("equals rated lines", held, rated, "GPU-s")
        )
    return Sheet(rows, {"gpu_seconds": held}, checks, **standing_of(books, span))


def _is_shared_out(found: QuerySet[DeviceSegment], month: Month) -> bool:
    """Whether the platform bears some of an attempt's seconds in a pool that shares them out: those
    come back in lines that are no attempt's."""
    terms = terms_of(month).items()
    sharing = [pool for pool, one in terms if one.platform != IdlePolicy.NONE]
    borne = Q(bucket=Bucket.UNREACHABLE) | Q(attempt__end_reason__in=_NOT_BILLABLE)
    return found.filter(borne, pool__in=sharing, bucket__in=sorted(ALLOCATED)).exists()


def _asked(found: QuerySet[DeviceSegment], ask: Ask, scope: Scope) -> QuerySet[DeviceSegment]:
    """As narrow as it was asked for, of what the viewer may see; operators see all devices."""
    if is_own(scope) and not scope.is_operator:
        found = found.filter(attempt__job__owner=scope.viewer)
    elif not scope.is_all and not scope.is_operator:
        found = found.filter(Q(project__team__in=scope.teams) | Q(team__in=scope.teams))
    exact = {"attempt_id": ask.attempt, "pool__name": ask.pool, "flavour": ask.flavour}
    found = found.filter(**{name: value for name, value in exact.items() if value})
    if ask.bucket:
        if ask.bucket not in _ROLLED_UP:
            raise Invalid(f"Name one of {', '.join(_ROLLED_UP)}.", field="bucket")
        found = found.filter(bucket__in=_ROLLED_UP[ask.bucket])
    team, _, project = (ask.project or ask.team).partition("/")
    if team:
        if is_own(scope) and not scope.is_operator:
            scope.own_accounts(ask.team, ask.project)
        else:
            scope.check_known(ask.team, ask.project)
        mine = Q(project__team__slug=team)
        mine = mine & Q(project__slug=project) if project else mine | Q(team__slug=team)
        found = found.filter(mine)
    return found


REPORTS = (
    Report(
        "capacity", "Capacity", "Where every second of every GPU in service went.",
        "day × pool × flavour", _CAPACITY, Who.BOOKS | Who.OPERATORS, _capacity, SPAN,
        ("day", "in_service_gpu_seconds"), (Bars(tuple(f"{b}_gpu_seconds" for b in _BUCKETS)),),
        adds=(Adds("in_service_gpu_seconds", tuple(f"{b}_gpu_seconds" for b in _BUCKETS)),),
    ),
    Report(
        "segments", "Segments", "The device seconds behind a figure, as they were written.",
        "segment", _SEGMENTS, Who.BOOKS | Who.TEAMS | Who.OWN | Who.OPERATORS, _segments,
        SPAN | {"attempt", "team", "project", "day", "pool", "flavour", "bucket"},
        is_streamed=True, is_trail=True,
    ),
)  # fmt: skip
