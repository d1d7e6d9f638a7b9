"""Quotas against what teams held, borrowed, left to others and waited for; one sweep of a month."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import (
    Aggregate,
    BigIntegerField,
    CharField,
    Count,
    F,
    Q,
    QuerySet,
    Sum,
    Value,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Coalesce

from scheduler.ledger.rating import DAY_S, ChargeKind
from scheduler.ledger.segments import ALLOCATED
from scheduler.models import DeviceSegment, GuaranteeSpan, Job, UsageLine
from scheduler.selectors.books.frame import (
    Ask,
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
)
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import EpochSecond, day_of, seconds_within, within
from scheduler.selectors.books.slugs.standing import Day, Standing
from scheduler.selectors.books.spans import SPAN, Span, closed_of, span_of, standing_of
from scheduler.states import JobState

_HELD = [str(bucket) for bucket in ALLOCATED]
_RUN_BORROWED = str(ChargeKind.RUN_BORROWED)
_DAY = {"day": "day", "team": "team", "flavour": "flavour"}
_HELD_BY = Drill("segments", _DAY, {"bucket": "allocated"})
_BORROWED = Drill("usage-lines", _DAY, {"kind": _RUN_BORROWED})
_QUOTAS = (
    Column("day", "Day", Form.DAY),
    Column("team", "Team"),
    Column("flavour", "GPU"),
    Column("guaranteed", "Guaranteed", Form.COUNT),
    Column("mean_gpus", "Mean use", Form.PRICE, drill=_HELD_BY),
    Column("peak_gpus", "Peak use", Form.COUNT, drill=_HELD_BY),
    Column("used_gpu_seconds", "Used h", Form.SECONDS, is_summed=True, drill=_HELD_BY),
    Column("borrowed_gpu_seconds", "Borrowed h", Form.SECONDS, is_summed=True, drill=_BORROWED),
    Column("unused_gpu_seconds", "Guarantee left to others h", Form.SECONDS, is_summed=True),
    Column("waited_gpu_seconds", "Waited for h", Form.SECONDS, is_summed=True),
    Column("wait_caused_gpu_seconds", "Wait caused h", Form.SECONDS, is_summed=True),
)
_REMARKS = (
    "Waited for: GPUs asked for × the time from queueing to the first start. Wait caused: as much "
    "of it as the team was guaranteed and did not hold: it was lent, drained, down or scattered.",
    "What was borrowed is known once the month is closed.",
)
# Without a model: jobs that take any, against everything the team holds and is guaranteed.
_ANY = ""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is summed or short: guarantees as changes by team and model, borrowed seconds by day,
    team and model, teams that waited for any model, seconds in service and held."""

    promised: dict[int, dict[str, list[tuple[int, int]]]]
    borrowed: dict[tuple[int, int, str], int]
    wait_for_any: frozenset[int]
    in_service: int
    held: int

    def guarantees_any(self, team: int) -> bool:
        """Whether a team is guaranteed GPUs of whatever model; its waits count against those."""
        return _ANY in self.promised.get(team, {})


def _quota_use(ask: Ask, scope: Scope) -> Sheet:
    """By team, GPU model and day: what was guaranteed then, held, left to others, waited for."""
    books = scope.books(ask.period)
    span = span_of(books, ask)
    start_s, end_s = span.start_s, span.end_s
    closed = closed_of(books, span)
    teams = _teams(ask, scope)
    segments = within(start_s, end_s).exclude(bucket="out")
    held = segments.filter(bucket__in=_HELD, project__team__in=list(teams))
    known = _known(scope, segments, held, teams, span)
    standing = _sweep(held, known, teams, start_s, end_s)
    rows: list[Cells] = []
    for key in sorted(standing, key=lambda each: (each[0], teams[each[1]], each[2])):
        (day_s, team, flavour), day = key, standing[key]
        span_s = min(end_s, day_s + DAY_S) - max(day_s, start_s)
        head = (day_of(day_s), teams[team], flavour or "any model", day.guaranteed)
        waits = (day.waited, day.caused)
        if flavour == _ANY:
            # What was held stands in the rows of the models, guarantees of any model here.
            unused = day.unused if known.guarantees_any(team) else None
            rows.append((*head, None, None, None, None, unused, *waits))
            continue
        mean = (Decimal(day.used) / span_s).quantize(Decimal("0.01"))
        lent = known.borrowed.get(key, 0) if f"{day_of(day_s):%Y-%m}" in closed else None
        unused = None if known.guarantees_any(team) else day.unused
        rows.append((*head, mean, day.peak, day.used, lent, unused, *waits))
    used = sum(day.used for (_, _, flavour), day in standing.items() if flavour != _ANY)
    checks = [
        Check("use equals segments", used, known.held, "GPU-s"),
        Bound("use is at most capacity", used, known.in_service, "GPU-s"),
    ]
    remarks = _REMARKS if set(span.months) - closed else _REMARKS[:1]
    return sheet_of(_QUOTAS, rows, ask, checks, remarks=remarks, **standing_of(books, span))


def _teams(ask: Ask, scope: Scope) -> dict[int, str]:
    """The teams the viewer may see here, narrowed. Raises NotFound."""
    teams = {pk: slug for slug, pk in scope.team_ids.items()}
    if not (scope.is_all or scope.is_operator):
        teams = {pk: slug for pk, slug in teams.items() if pk in scope.teams}
    if ask.team:
        scope.check_known(ask.team)
        teams = {pk: slug for pk, slug in teams.items() if slug == ask.team}
    return teams


_NAMES = ("what_", "first_", "until_", "team_", "flavour_", "account_", "number_")


def _shaped(what: str, **columns: Combinable) -> dict[str, Any]:
    """Columns that are no sums, for rows of one shape that are read together.

    What is empty is a bare value: by those nothing is grouped, so nothing is sorted.
    """
    whole, text = BigIntegerField(), CharField(max_length=96)
    found: dict[str, Any] = {"what_": Value(what, output_field=text)}
    for name in _NAMES[1:-1]:
        form = text if name in ("flavour_", "account_") else whole
        empty = Value("" if form is text else 0, output_field=form)
        found[name] = Cast(columns[name], form) if name in columns else empty
    return found


def _sums(
    segments: QuerySet[DeviceSegment],
    held: QuerySet[DeviceSegment],
    teams: dict[int, str],
    window: Span,
) -> tuple[tuple[QuerySet[Any], dict[str, Any], Aggregate], ...]:
    """Rows, their columns and what is added up of them."""
    start_s, end_s = window.start_s, window.end_s
    span = Sum(seconds_within(start_s, end_s))
    spans = GuaranteeSpan.objects.filter(
        Q(until_s=None) | Q(until_s__gt=start_s), from_s__lt=end_s, team__in=list(teams)
    )
    lines = UsageLine.objects.filter(
        period__name__in=window.months,
        period__version__gt=0,
        day_s__range=(start_s, end_s - 1),
        kind=_RUN_BORROWED,
    )
    return (
        (spans, _shaped("promise", first_=F("from_s"), until_=Coalesce("until_s", end_s),
                        team_=F("team_id"), flavour_=F("flavour")), Sum("gpus")),
        (lines, _shaped("line", first_=F("day_s"), flavour_=F("flavour"), account_=F("account")),
         Sum("gpu_seconds")),
        (_waiting(teams, start_s, end_s).filter(gpu_model=_ANY),
         _shaped("any", team_=F("project__team_id")), Count("pk")),
        (held, _shaped("held"), span),
        (segments, _shaped("service"), span),
    )  # fmt: skip


def _known(
    scope: Scope,
    segments: QuerySet[DeviceSegment],
    held: QuerySet[DeviceSegment],
    teams: dict[int, str],
    window: Span,
) -> _Known:
    """One statement."""
    start_s, end_s = window.start_s, window.end_s
    first, *more = (
        rows.order_by()
        .annotate(**columns)
        .values(*_NAMES[:-1])
        .annotate(number_=Cast(sum_, BigIntegerField()))
        .values_list(*_NAMES)
        for rows, columns, sum_ in _sums(segments, held, teams, window)
    )
    promised: dict[int, dict[str, list[tuple[int, int]]]] = {}
    borrowed: dict[tuple[int, int, str], int] = {}
    wait_for_any: set[int] = set()
    sums = {"held": 0, "service": 0}
    for what, begin, end, team, flavour, account, number in first.union(*more, all=True):
        if what == "promise":
            of_team = promised.setdefault(team, {}).setdefault(flavour, [])
            of_team += [(max(begin, start_s), number), (min(end, end_s), -number)]
        elif what == "line":
            key = (begin, scope.team_ids.get(scope.place(account).team, 0), flavour)
            borrowed[key] = borrowed.get(key, 0) + number
        elif what == "any":
            wait_for_any.add(team)
        else:
            sums[what] = number or 0
    return _Known(promised, borrowed, frozenset(wait_for_any), sums["service"], sums["held"])


def _waiting(teams: dict[int, str], start_s: int, end_s: int) -> QuerySet[Job]:
    """Jobs that waited for GPUs in a window."""
    since, before = (datetime.fromtimestamp(each, UTC) for each in (start_s, end_s))
    still = Q(started_at__gt=since) | Q(started_at=None) & (
        Q(ended_at=None) | Q(ended_at__gt=since)
    )
    jobs = Job.objects.filter(
        still, queued_at__lt=before, gpus_per_node__gt=0, project__team__in=list(teams)
    )
    return jobs.exclude(state=JobState.HELD).order_by()


def _begun(
    held: QuerySet[DeviceSegment], teams: dict[int, str], start_s: int, end_s: int
) -> Iterator[tuple[int, int, int, str, int]]:
    """What begins, in order: first second, last one, team, model, GPUs waited for (0: one held);
    one statement."""
    waits = _shaped(
        "",
        first_=EpochSecond("queued_at"),
        until_=Coalesce(EpochSecond(Coalesce("started_at", "ended_at")), end_s),
        team_=F("project__team_id"),
        flavour_=F("gpu_model"),
    )
    stays = _shaped(
        "",
        first_=F("start_s"),
        until_=Coalesce("end_s", end_s),
        team_=F("project__team_id"),
        flavour_=F("flavour"),
    )
    gpus = Cast(F("nodes") * F("gpus_per_node"), BigIntegerField())
    names = ("first_", "until_", "team_", "flavour_", "number_")
    jobs = _waiting(teams, start_s, end_s)
    waiting = jobs.annotate(**waits, number_=gpus).values_list(*names)
    holding = held.annotate(**stays, number_=Cast(Value(0), BigIntegerField())).values_list(*names)
    both: QuerySet[Any, Any] = holding.union(waiting, all=True)
    return both.order_by("first_").iterator(20_000)


def _sweep(
    held: QuerySet[DeviceSegment], known: _Known, teams: dict[int, str], start_s: int, end_s: int
) -> dict[tuple[int, int, str], Day]:
    """Days by (day's first second, team, model). Memory grows with what is held at one time."""
    standing: dict[tuple[int, str], Standing] = {}

    def of(team: int, flavour: str) -> Standing:
        if (team, flavour) not in standing:
            mine = known.promised.get(team, {})
            names = mine if flavour == _ANY else [flavour]
            changes = [change for name in names for change in mine.get(name, [])]
            standing[team, flavour] = Standing(start_s, sorted(changes, reverse=True))
        return standing[team, flavour]

    for team, models in known.promised.items():
        for flavour in models:
            of(team, flavour)
    for first, until, team, flavour, gpus in _begun(held, teams, start_s, end_s):
        begin, end = max(first, start_s), min(until, end_s)
        counts_all = known.guarantees_any(team)
        if gpus and begin < end:
            of(team, _ANY if counts_all else flavour).wait(begin, end, gpus)
        elif begin < end:
            of(team, flavour).hold(begin, end)
            if counts_all or team in known.wait_for_any:
                of(team, _ANY).hold(begin, end)
    days: dict[tuple[int, int, str], Day] = {}
    for (team, flavour), found in standing.items():
        found.go_to(end_s)
        is_own = flavour != _ANY or known.guarantees_any(team)
        for first, day in found.days.items():
            if day.waited or (is_own and (day.used or day.guaranteed)):
                days[first, team, flavour] = day
    return days


REPORTS = (
    Report(
        "quota-use", "Use of quotas", "What teams held against what they are guaranteed.",
        "team × flavour × day", _QUOTAS, Who.BOOKS | Who.TEAMS | Who.OPERATORS, _quota_use,
        SPAN | {"team"}, ("team", "used_gpu_seconds"),
    ),
)  # fmt: skip
