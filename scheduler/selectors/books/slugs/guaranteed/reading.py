"""What teams were guaranteed, held and waited for in a span of time: two statements, one sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
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

from scheduler.ledger.rating import ChargeKind
from scheduler.ledger.segments import ALLOCATED
from scheduler.models import DeviceSegment, GuaranteeSpan, Job, UsageLine
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import EpochSecond, seconds_within, within
from scheduler.selectors.books.slugs.guaranteed.standing import ANY, Day, Standing
from scheduler.selectors.books.spans import Span
from scheduler.states import JobState

RUN_BORROWED = str(ChargeKind.RUN_BORROWED)
_HELD = [str(bucket) for bucket in ALLOCATED]
# A day's first second, a team, a model or any.
Key = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Known:
    """What is summed or short: guarantees as changes by team and model, borrowed seconds by day,
    team and model, of any: of all; teams that waited for any model, seconds in service and held."""

    promised: dict[int, dict[str, list[tuple[int, int]]]]
    borrowed: Counter[Key]
    wait_for_any: frozenset[int]
    in_service: int
    held: int

    def guarantees_any(self, team: int) -> bool:
        """Whether a team is guaranteed GPUs of whatever model: all it uses is held against all it
        is guaranteed, and its waits are."""
        return ANY in self.promised.get(team, {})


def read_month(scope: Scope, teams: dict[int, str], window: Span) -> tuple[Known, dict[Key, Day]]:
    """Days by (day's first second, team, model or any): of a model what is of that alone, of any
    what is of the whole team. Memory grows with what is held at one time."""
    segments = within(window.start_s, window.end_s).exclude(bucket="out")
    held = segments.filter(bucket__in=_HELD, project__team__in=list(teams))
    known = _known(scope, segments, held, teams, window)
    return known, _sweep(held, known, teams, window.start_s, window.end_s)


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
        kind=RUN_BORROWED,
    )
    return (
        (spans, _shaped("promise", first_=F("from_s"), until_=Coalesce("until_s", end_s),
                        team_=F("team_id"), flavour_=F("flavour")), Sum("gpus")),
        (lines, _shaped("line", first_=F("day_s"), flavour_=F("flavour"), account_=F("account")),
         Sum("gpu_seconds")),
        (_waiting(teams, start_s, end_s).filter(gpu_model=ANY),
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
) -> Known:
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
    borrowed = Counter[Key]()
    wait_for_any: set[int] = set()
    sums = {"held": 0, "service": 0}
    for what, begin, end, team, flavour, account, number in first.union(*more, all=True):
        if what == "promise":
            of_team = promised.setdefault(team, {}).setdefault(flavour, [])
            of_team += [(max(begin, start_s), number), (min(end, end_s), -number)]
        elif what == "line":
            key = (begin, scope.team_ids.get(scope.place(account).team, 0), flavour)
            borrowed[key] += number
            borrowed[*key[:2], ANY] += number
        elif what == "any":
            wait_for_any.add(team)
        else:
            sums[what] = number or 0
    return Known(promised, borrowed, frozenset(wait_for_any), sums["service"], sums["held"])


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
    held: QuerySet[DeviceSegment], known: Known, teams: dict[int, str], start_s: int, end_s: int
) -> dict[Key, Day]:
    standing: dict[tuple[int, str], Standing] = {}

    def of(team: int, flavour: str) -> Standing:
        if (team, flavour) not in standing:
            mine = known.promised.get(team, {})
            names = mine if flavour == ANY else [flavour]
            changes = [(at_s, name, n) for name in names for at_s, n in mine.get(name, [])]
            standing[team, flavour] = Standing(start_s, sorted(changes, reverse=True))
        return standing[team, flavour]

    for team, models in known.promised.items():
        for flavour in models:
            of(team, flavour)
    for first, until, team, flavour, gpus in _begun(held, teams, start_s, end_s):
        begin, end = max(first, start_s), min(until, end_s)
        counts_all = known.guarantees_any(team)
        if gpus and begin < end:
            of(team, ANY if counts_all else flavour).wait(begin, end, gpus)
        elif begin < end:
            of(team, flavour).hold(begin, end, flavour)
            if counts_all or team in known.wait_for_any:
                of(team, ANY).hold(begin, end, flavour)
    days: dict[Key, Day] = {}
    for (team, flavour), found in standing.items():
        found.go_to(end_s)
        is_own = flavour != ANY or known.guarantees_any(team)
        for first, day in found.days.items():
            if day.waited or (is_own and (day.used or day.guaranteed)):
                days[first, team, flavour] = day
    return days
