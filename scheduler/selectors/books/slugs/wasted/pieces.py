"""Seconds, readings and charges of each attempt by day, before anything is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import CharField, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Cast, Coalesce

from accounts.statements import Null, WholeNumber
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import DAY_S, ChargeKind, cut
from scheduler.ledger.segments import ALLOCATED, Bucket
from scheduler.models import DeviceSegment, UsageEntry, UsageLine
from scheduler.models.exact import ExactAmount, ExactSum
from scheduler.money import cost_of
from scheduler.selectors.books.seconds import EpochSecond, Windows, lies_in_days

_CHUNK = 20_000
_NAMES = ("source_", "what_", "account_", "attempt_", "project_", "team_", "first_", "until_")
_LINE, _ENTRY, _SEGMENT = range(3)
_NUMBER = WholeNumber()
_NONE = Null(_NUMBER)
_NO_AMOUNT = Null(ExactAmount())
_EMPTY = Value("", output_field=CharField())
_WANTED = [str(bucket) for bucket in (*ALLOCATED, Bucket.RESERVED_IDLE)]
_RUNS = frozenset({str(ChargeKind.RUN), str(ChargeKind.RUN_BORROWED)})
RESERVED = str(Bucket.RESERVED_IDLE)
# Attempt (none: of nobody's job) and the first second of a UTC day.
Key = tuple[int | None, int, str]


@dataclass(slots=True)
class Piece:
    """Of an attempt, or of an account beside its jobs, on one day: GPU-seconds and what was charged
    for them. `run_charged`: of what its program ran, where the ledger says so; `is_priced`: whether
    anything was charged, be it at a price of nothing."""

    run: int = 0
    around: int = 0
    reserved: int = 0
    amount: Decimal = ZERO
    run_charged: Decimal | None = None
    reserved_charged: Decimal = ZERO
    is_priced: bool = False

    @property
    def held(self) -> int:
        """GPU-seconds that an attempt held."""
        return self.run + self.around

    def idle_charged(self, idle: int) -> Decimal:
        """The part of the charge that is for so many idle seconds, to six places."""
        if self.run_charged is not None:
            charged, seconds = self.run_charged, self.run
        else:
            charged, seconds = self.amount, self.held
        return (charged * idle / seconds).quantize(_STEP) if seconds else ZERO


_STEP = Decimal("0.000001")


def pieces_of(
    accounts: Iterable[str],
    windows: Windows,
    lines: QuerySet[UsageLine],
    entries: QuerySet[UsageEntry],
    segments: QuerySet[DeviceSegment],
) -> dict[Key, Piece]:
    """By attempt, day and account; one statement, none where there is no window.

    `accounts`: those of all projects, as their teams are now. Charges are the lines where a month
    is closed and the usage entries where it is open, so `entries` are those of open months.
    """
    if not windows:
        return {}
    parts = [_of_lines(lines), _of_entries(entries), *_of_segments(segments, windows)]
    first, *others = [part.values_list(*_NAMES, "amount_", "seconds_") for part in parts]
    rows = first.union(*others, all=True).order_by("source_")
    return _gathered(rows.iterator(_CHUNK), _by_project(accounts), windows)


def of_open_months(entries: QuerySet[UsageEntry], closed: Iterable[str]) -> QuerySet[UsageEntry]:
    """The entries without those of months that are rated."""
    for name in closed:
        month = Month.parse(name)
        start, end = (datetime.fromtimestamp(s, UTC) for s in (month.start_s, month.end_s))
        entries = entries.exclude(period_start__gte=start, period_start__lt=end)
    return entries


def _of_lines(lines: QuerySet[UsageLine]) -> QuerySet[Any]:
    return (
        lines.order_by()
        .annotate(source_=Value(_LINE, _NUMBER), what_=F("kind"), account_=F("account"))
        .annotate(attempt_=F("attempt_id"), project_=_NONE, team_=_NONE)
        .annotate(first_=F("day_s"), until_=_NONE)
        .values(*_NAMES)
        .annotate(amount_=ExactSum("amount"), seconds_=Cast(Sum("gpu_seconds"), _NUMBER))
    )


def _of_entries(entries: QuerySet[UsageEntry]) -> QuerySet[Any]:
    """`amount_` is the price; what its seconds cost is worked out as the page of costs does."""
    second = EpochSecond("period_start")
    return (
        entries.annotate(second_=second)
        .annotate(source_=Value(_ENTRY, _NUMBER), what_=_EMPTY, account_=_EMPTY)
        .annotate(attempt_=F("attempt_id"), project_=F("project_id"), team_=_NONE)
        .annotate(first_=F("second_") - F("second_") % Value(DAY_S, _NUMBER), until_=_NONE)
        .annotate(amount_=Cast("unit_price", ExactAmount()))
        .values(*_NAMES, "amount_")
        .annotate(seconds_=Cast(Sum("gpu_seconds"), _NUMBER))
    )


def _of_segments(segments: QuerySet[DeviceSegment], windows: Windows) -> tuple[QuerySet[Any], ...]:
    """Those that lie within a day as sums, the others as they are."""
    is_whole, day = lies_in_days(windows[0][0], windows[-1][1])
    found = (
        segments.filter(bucket__in=_WANTED)
        .annotate(source_=Value(_SEGMENT, _NUMBER), what_=F("bucket"), account_=_EMPTY)
        .annotate(attempt_=F("attempt_id"), project_=F("project_id"))
        .annotate(team_=Coalesce("team_id", "project__team_id"), amount_=_NO_AMOUNT)
    )
    whole = (
        found.filter(is_whole)
        .annotate(first_=day, until_=_NONE)
        .values(*_NAMES, "amount_")
        .annotate(seconds_=Cast(Sum(F("end_s") - F("start_s")), _NUMBER))
    )
    rest = found.filter(Q(end_s__isnull=True) | ~is_whole)
    return whole, rest.annotate(first_=F("start_s"), until_=F("end_s"), seconds_=_NONE)


def _gathered(
    rows: Iterable[tuple[Any, ...]], accounts: dict[int, str], windows: Windows
) -> dict[Key, Piece]:
    """Lines come first: where an attempt's time was charged to, there its seconds are counted. Of
    an attempt whose project paid for a part of the day and somebody else for the rest, all of the
    day's seconds are the project's."""
    found: dict[Key, Piece] = {}
    charged: dict[tuple[int, int], str] = {}
    for source, what, account, attempt, project, team, first, until, amount, seconds in rows:
        if source == _LINE:
            if attempt is not None:
                charged[attempt, first] = account
            _charge(found.setdefault((attempt, first, account), Piece()), what, amount)
            continue
        account = accounts.get(project, f"team:{team}")
        if source == _ENTRY:
            piece = found.setdefault((attempt, first, account), Piece())
            piece.amount = EXACT.add(piece.amount, cost_of(seconds, amount))
            piece.is_priced = True
            continue
        for day, length in _days(first, until, seconds, windows):
            key = (attempt, day, account)
            if attempt is not None and key not in found:
                key = (attempt, day, charged.get((attempt, day), account))
            _count(found.setdefault(key, Piece()), what, length)
    return found


def _charge(piece: Piece, kind: str, amount: Decimal) -> None:
    piece.amount = EXACT.add(piece.amount, amount)
    piece.is_priced = True
    if kind in _RUNS:
        piece.run_charged = EXACT.add(piece.run_charged or ZERO, amount)
    elif kind == ChargeKind.RESERVED_IDLE:
        piece.reserved_charged = EXACT.add(piece.reserved_charged, amount)


def _count(piece: Piece, bucket: str, seconds: int) -> None:
    if bucket == Bucket.RUN:
        piece.run += seconds
    elif bucket == RESERVED:
        piece.reserved += seconds
    else:
        piece.around += seconds


def _days(
    first: int, until: int | None, seconds: int | None, windows: Windows
) -> Iterable[tuple[int, int]]:
    """The parts of a segment that lie in windows, by the first second of their day."""
    if seconds is not None:
        yield first, seconds
        return
    for start_s, end_s in windows:
        last = end_s if until is None else min(until, end_s)
        for begin, end in cut(max(first, start_s), last, ()):
            yield begin - begin % DAY_S, end - begin


def _by_project(accounts: Iterable[str]) -> dict[int, str]:
    named = ((key, key.partition("project:")[2]) for key in accounts)
    return {int(number): key for key, number in named if number}
