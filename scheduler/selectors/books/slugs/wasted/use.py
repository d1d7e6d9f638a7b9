"""Use and waste over time: days, weeks or months of what was held, and what became of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

from django.db.models import Q, QuerySet

from scheduler.conf import load_conf
from scheduler.ledger.exact import total
from scheduler.ledger.rating import DAY_S
from scheduler.models import UsageLine
from scheduler.selectors.books.adding import Adds
from scheduler.selectors.books.frame import (
    Ask,
    Bars,
    Bound,
    Cell,
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
from scheduler.selectors.books.seconds import day_of
from scheduler.selectors.books.slugs.lines import LineSums, is_own, line_sums, lines_asked
from scheduler.selectors.books.slugs.wasted.asked import (
    asked,
    idle_as,
    in_windows,
    what_is_idle,
)
from scheduler.selectors.books.slugs.wasted.days import Days, days_of, kept_sums
from scheduler.selectors.books.slugs.wasted.hours import Hours
from scheduler.selectors.books.slugs.wasted.pieces import of_open_months, pieces_of
from scheduler.selectors.books.slugs.wasted.readings import idle_by_day
from scheduler.selectors.books.slugs.wasted.sums import Sums
from scheduler.selectors.books.spans import SPAN, Span, closed_of, span_of, standing_of

# So many attempts are named one by one.
_FEW = 1000
FINAL, SO_FAR = "final", "so far"
# How the remark begins that says so.
READ_UNTIL = "Readings of today count until"
_NO_TRIFLE = 0.05
_USE = (
    Column("day", "Day", Form.DAY),
    Column("week", "Week", is_detail=True),
    Column("month", "Month", is_detail=True),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("held_gpu_seconds", "Held h", Form.SECONDS, is_summed=True),
    Column("work_gpu_seconds", "At work h", Form.SECONDS, is_summed=True),
    Column(
        "idle_gpu_seconds", "Held, idle h", Form.SECONDS, is_summed=True,
        drill=Drill("idle-waste", {"team": "team", "project": "project"}),
    ),
    Column("unread_gpu_seconds", "Not measured h", Form.SECONDS, is_summed=True),
    Column("around_gpu_seconds", "Set-up h", Form.SECONDS, is_summed=True),
    Column("reserved_idle_gpu_seconds", "Reserved idle h", Form.SECONDS, is_summed=True),
    Column("amount", "Cost", Form.AMOUNT, is_summed=True, is_lead=True),
    Column("used_amount", "Of it for use", Form.AMOUNT, is_summed=True),
    Column("idle_amount", "For idle", Form.AMOUNT, is_summed=True),
    Column("reserved_amount", "For reserved idle", Form.AMOUNT, is_summed=True),
    Column("shared_amount", "Shares", Form.AMOUNT, is_summed=True),
    Column("stands", "Cost is"),
    Column("currency", "Currency", is_file_only=True),
)  # fmt: skip
# What held time is made of.
_PARTS = ("work", "idle", "unread", "around")
_ADDS = (
    Adds("held_gpu_seconds", tuple(f"{part}_gpu_seconds" for part in _PARTS)),
    Adds("amount", tuple(f"{part}_amount" for part in ("used", "idle", "reserved", "shared"))),
)
_Totals = Mapping[str, int | Decimal]
_NOT_PRICED = (
    " Idle time of what runs gets its price when its hour is over, reserved time with the close. "
    "Until then it has no amount."
)
PLACES = {column.name: place for place, column in enumerate(_USE)}


def _use_and_waste(ask: Ask, scope: Scope) -> Sheet:
    """Of each day and project: held GPU-seconds by whether they were at work, and what they cost.

    A day of a closed month costs what the ledger's lines say, one of an open month what was charged
    so far; shares come with the close. Older days are summed already. What idle and reserved time
    costs is empty, and no 0, where nothing of it was priced yet.
    """
    books = scope.books(ask.period)
    span = span_of(books, ask)
    closed = closed_of(books, span)
    lines, accounts = lines_asked(books, ask, scope)
    conf = load_conf()
    known = days_of(span, closed, idle_as(conf))
    hours = known.hours.without_fresh(span.end_s)
    days = _days(ask, scope, span, closed, lines, replace(known, hours=hours))
    rows = [_row(scope, books, key, sums, span, closed) for key, sums in sorted(days.items())]
    rows = [row for row in rows if any(row[PLACES["held_gpu_seconds"] : PLACES["stands"]])]
    ledger = line_sums(books, ask, scope, lines, accounts) if closed else None
    sums = totals_of(_USE, rows)
    remarks = (
        what_is_idle(conf), *_unread_remarks(sums), *_fresh_remarks(known.hours, hours),
        *_open_remarks(span, closed, rows),
    )  # fmt: skip
    return sheet_of(
        _USE, rows, ask, _checks(rows, sums, ledger, books.currency), sums,
        currency=books.currency, remarks=remarks, **standing_of(books, span),
    )  # fmt: skip


def _days(
    ask: Ask,
    scope: Scope,
    span: Span,
    closed: frozenset[str],
    lines: QuerySet[UsageLine],
    known: Days,
) -> dict[tuple[int, str], Sums]:
    """Of each day and account: from the sums of days, and counted where there are none. What is
    equal: all of it counted, but for readings of the last minutes, which go by those before."""
    conf, days = load_conf(), defaultdict[tuple[int, str], Sums](Sums)
    for day_s, account, sums in kept_sums(ask, scope, known):
        days[day_s, account].add(sums)
    mine = asked(ask, scope, known.windows, known.hours)
    if not known.windows:
        return days
    lines = lines.filter(in_windows(known.windows))
    entries = of_open_months(mine.entries, closed)
    pieces = pieces_of(scope.places, known.windows, lines, entries, mine.segments)
    sources = mine.readings
    held = {attempt for attempt, _, _ in pieces if attempt is not None}
    if is_own(scope) and len(held) <= _FEW:
        # They are all that is asked for; by person a database goes through all that one ever ran.
        sources = sources.of(Q(attempt__in=held))
    read = idle_by_day(sources, conf, span.end_s)
    for (attempt, day_s, account), piece in pieces.items():
        readings = read.get((attempt, day_s), (0, 0)) if attempt is not None else (0, 0)
        days[day_s, account].take(piece, readings, is_job=attempt is not None)
    return days


def _row(
    scope: Scope,
    books: Books,
    key: tuple[int, str],
    sums: Sums,
    span: Span,
    closed: frozenset[str],
) -> Cells:
    day, place = day_of(key[0]), scope.place(key[1])
    stands = FINAL if f"{day:%Y-%m}" in closed else SO_FAR
    head = (day, week_of(day), f"{day:%Y-%m}", place.team, place.project)
    cells: list[Cell] = [*head, *sums.figures, stands, books.currency]
    if stands == SO_FAR:
        # Of days that are over all is charged that will be before the close.
        is_over = key[0] + DAY_S <= span.end_s
        if sums.unpriced and not sums.idle_amount and not is_over:
            cells[PLACES["idle_amount"]] = None
        if sums.reserved and not sums.reserved_amount:
            cells[PLACES["reserved_amount"]] = None
    return tuple(cells)


def week_of(day: date) -> str:
    """The week as ISO 8601 writes it, such as 2026-W48; weeks begin on Mondays."""
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02d}"


def _checks(
    rows: list[Cells], sums: _Totals, ledger: LineSums | None, currency: str
) -> list[Check]:
    """The parts against the whole, and the days of closed months against lines and ledger."""
    seconds = sum(int(sums[f"{part}_gpu_seconds"]) for part in _PARTS)
    amounts = [Decimal(sums[f"{part}_amount"]) for part in ("used", "idle", "reserved", "shared")]
    held, idle = sums["held_gpu_seconds"], sums["idle_gpu_seconds"]
    checks: list[Check] = [
        Check("held is at work, idle, not measured and set-up", held, seconds, "GPU-s"),
        Check("cost is use, idle, reserved and shares", sums["amount"], total(amounts), currency),
        Bound("idle is at most held", idle, held, "GPU-s"),
    ]
    if ledger is None:
        return checks
    final = [row[PLACES["amount"]] for row in rows if row[PLACES["stands"]] == FINAL]
    charged = total(amount for amount in final if isinstance(amount, Decimal))
    checks.append(Check("days of closed months equal lines", charged, ledger.amount, currency))
    return [*checks, *(check for check in ledger.checks(currency) if check.unit == currency)]


def _unread_remarks(sums: _Totals) -> tuple[str, ...]:
    """Where what was not measured is no trifle: it may have been idle, and stands under use."""
    unread, held = sums["unread_gpu_seconds"], sums["held_gpu_seconds"]
    if not held or unread / held < _NO_TRIFLE:
        return ()
    return (
        f"Not measured: {unread / held * 100:.0f} % of what was held. Whether it was at work "
        "nobody knows; what it cost stands under use.",
    )


def _fresh_remarks(hours: Hours, read: Hours) -> tuple[str, ...]:
    """Until when readings count, where the last ones do not yet."""
    if read == hours:
        return ()
    until = datetime.fromtimestamp(hours.raw[-1][0], UTC)
    return (
        f"{READ_UNTIL} {until:%H:%M:%S} UTC, those since within minutes. Until "
        "then what is held goes by the rest of its day.",
    )


def _open_remarks(span: Span, closed: frozenset[str], rows: list[Cells]) -> tuple[str, ...]:
    left = [month for month in span.months if month not in closed]
    if not left:
        return ()
    are = "is" if len(left) == 1 else "are"
    names = ("idle_amount", "reserved_amount")
    has_empty = any(row[PLACES[name]] is None for row in rows for name in names)
    return (
        f"{_months_words(left)} {are} not closed. What a day cost there is what was charged so "
        "far, by whole hours while a job runs. The close of a month sets its prices for good, and "
        f"adds shares and what was reserved.{_NOT_PRICED if has_empty else ''}",
    )


def _months_words(months: Sequence[str]) -> str:
    """`November 2026`, `October and November 2026`, or `October 2026 to January 2027`."""
    first, last = (date.fromisoformat(f"{months[place]}-01") for place in (0, -1))
    if first == last:
        return f"{first:%B %Y}"
    if len(months) > 2 or first.year != last.year:
        return f"{first:%B %Y} {'to' if len(months) > 2 else 'and'} {last:%B %Y}"
    return f"{first:%B} and {last:%B %Y}"


REPORTS = (
    Report(
        "use-and-waste", "Use and waste",
        "Held GPUs by day, week or month: at work or idle, and what each cost.",
        "day × project", _USE, Who.BOOKS | Who.TEAMS | Who.OWN, _use_and_waste,
        SPAN | {"team", "project"}, ("day", "idle_gpu_seconds"),
        (Bars(tuple(f"{part}_gpu_seconds" for part in (*_PARTS, "reserved_idle"))),),
        adds=_ADDS,
    ),
)  # fmt: skip
