"""Use and waste: GPU time by week, day or month, at work or idle, and what each cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from accounts.errors import Invalid, NotFound
from accounts.models import User
from accounts.permissions import can, team_ids_for
from accounts.services.audit import Subject, record
from portal import limits
from portal.forms.filters import Period, parse_period, unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from portal.pages.using.times import SPANS, days_of, words_of
from portal.reports.books.cells import is_hours, shown
from portal.reports.books.opened import check_words
from portal.reports.books.printed import printed
from portal.reports.streams import StreamedFile, csv_file
from scheduler.conf import load_conf
from scheduler.ledger.exact import EXACT
from scheduler.ledger.shares import places_that_add_up
from scheduler.selectors.books.catalogue import open_report, report_named
from scheduler.selectors.books.frame import Ask, Form, Report, Sheet
from scheduler.selectors.books.months import shelf
from scheduler.selectors.books.slugs.wasted.use import READ_UNTIL
from scheduler.selectors.saved.scopes import Scope
from scheduler.states import hour_places

SLUG = "use-and-waste"
FORMATS = ("", "html", "csv")
PARAMETERS = ("by", "from", "to", "format", "scope")
_WEEKS = 8
_SO_FAR = "so far"


@dataclass(slots=True)
class Part:
    """A week, day or month: `sums` by the column's name, `texts` as the page prints them. `is_cut`:
    not all of its days are in; `unpriced`: the amounts of which something was not priced yet."""

    key: str
    words: str
    first: date
    last: date
    sums: dict[str, int | Decimal]
    is_final: bool = True
    is_cut: bool = False
    unpriced: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)

    def figure(self, name: str) -> int | Decimal | None:
        """Its sum; None, which is no 0, where nothing of it was priced yet."""
        found = self.sums.get(name, 0)
        return None if name in self.unpriced and not found else found


@page("GET")
def waste_overview(request: HttpRequest) -> HttpResponseBase:
    """`?by=week|day|month&from=&to=`; `?format=csv` gives the same rows as a file."""
    viewer, now = viewer_of(request), timezone.now()
    if opened := opened_in_scope(request, viewer):
        return opened
    period = _period(request, now.date())
    problems = [f"{name}: {text}" for name, text in period.problems.items()]
    scope = scope_here(request, viewer, problems)
    by = request.GET.get("by", "") or "week"
    if by not in SPANS:
        problems.append(f"by: {by[:20]!r} is no length of time; choose from {', '.join(SPANS)}.")
        by = "week"
    if request.GET.get("format", "") not in FORMATS:
        problems.append("format: choose html or csv.")
    report, sheet = _opened(viewer, _ask(period, scope, now), problems)
    parts = list(_parts(report, sheet, by, period))
    currency = sheet.currency or load_conf().currency
    whole = _whole(sheet, parts, period)
    _print(report, [*parts, whole], currency)
    if request.GET.get("format") == "csv" and not problems:
        limits.count(limits.EXPORT, viewer.pk)
        asked = {"by": by, "first": period.first, "last": period.last}
        record(viewer, "export.waste", Subject("export", "", "use and waste as CSV"), after=asked)
        return _csv(report, [*parts, whole], by, period, sheet.currency)
    context = {
        "parts": parts[::-1],
        "totals": sheet.totals,
        "total_texts": whole.texts,
        "most": max((part.sums["held_gpu_seconds"] for part in parts), default=0),
        "by": by,
        "by_word": SPANS[by],
        "spans": SPANS,
        "period": period,
        "what_is_idle": next(iter(sheet.remarks), ""),
        "remarks": [one for one in sheet.remarks[1:] if not one.startswith(READ_UNTIL)],
        "read_until": next((one for one in sheet.remarks if one.startswith(READ_UNTIL)), ""),
        "checks": [(check.holds, check_words(check, report.columns)) for check in sheet.checks],
        "whose": _whose(viewer),
        "report_url": _report_url(SLUG, period, scope, by=by),
        "attempts_url": _report_url("idle-waste", period, scope),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": now,
    }
    return render(request, "costs/waste.html", context)


def _period(request: HttpRequest, today: date) -> Period:
    """Eight weeks, this one included, where no day is named."""
    first, last = request.GET.get("from", ""), request.GET.get("to", "")
    monday = today - timedelta(days=today.weekday(), weeks=_WEEKS - 1)
    if not first and not last:
        return Period(monday, today)
    found = parse_period(first, last, today=today)
    return Period(monday, today, found.problems) if found.problems else found


def _ask(period: Period, scope: Scope, now: datetime) -> Ask:
    kind, _, name = scope.text.partition(":")
    return Ask(
        f"{period.first:%Y-%m}",
        since=period.first.isoformat(),
        until=period.last.isoformat(),
        now_s=int(now.timestamp()),
        team=name if kind == "team" else "",
        project=name if kind == "project" else "",
    )


def _opened(viewer: User, ask: Ask, problems: list[str]) -> tuple[Report, Sheet]:
    """The report's sheet; what it refuses is a problem, and the sheet has no rows."""
    try:
        return open_report(viewer, SLUG, ask, shelf())
    except (Invalid, NotFound) as refused:
        # To the report a scope is a team or a project; whoever reads this knows it as the scope.
        field = "scope" if refused.field in ("team", "project") else refused.field
        problems.append(f"{field}: {refused.detail}" if field else refused.detail)
        return report_named(SLUG), Sheet(lambda after: iter(()), {}, ())


def _parts(report: Report, sheet: Sheet, by: str, period: Period) -> Iterator[Part]:
    """The rows summed by a length of time, in its order."""
    names = [column.name for column in report.columns]
    summed = [place for place, column in enumerate(report.columns) if column.is_summed]
    found: dict[str, Part] = {}
    for row in sheet.rows(0):
        cells = dict(zip(names, row.cells, strict=True))
        key, day = str(cells[by]), cells["day"]
        assert isinstance(day, date)
        if key not in found:
            first, last = days_of(by, day)
            is_cut = first < period.first or last > period.last
            sums: dict[str, int | Decimal] = dict.fromkeys((names[place] for place in summed), 0)
            found[key] = Part(key, words_of(by, first, last), first, last, sums, is_cut=is_cut)
        part = found[key]
        part.is_final &= cells["stands"] != _SO_FAR
        for place in summed:
            part.sums[names[place]] = _added(part.sums[names[place]], row.cells[place])
            if row.cells[place] is None:
                part.unpriced.add(names[place])
    return iter(sorted(found.values(), key=lambda part: part.first))


def _added(so_far: int | Decimal, cell: object) -> int | Decimal:
    if isinstance(cell, Decimal):
        return EXACT.add(Decimal(so_far), cell)
    return so_far + cell if isinstance(cell, int) else so_far


def _whole(sheet: Sheet, parts: Sequence[Part], period: Period) -> Part:
    unpriced = {name for part in parts for name in part.unpriced}
    sums = dict(sheet.totals)
    return Part("total", "", period.first, period.last, sums, unpriced=unpriced)


def _print(report: Report, parts: Sequence[Part], currency: str) -> None:
    """Sets their texts: hours with one number of decimals, amounts with their currency, and parts
    that add up to their whole as they stand there."""
    hours = [column.name for column in report.columns if is_hours(column)]
    seconds = [part.sums.get(name) for part in parts for name in hours]
    decimals = dict.fromkeys(hours, places_that_add_up(seconds, hour_places(seconds)))
    for part in parts:
        texts = printed(report, part.sums, decimals)
        for column in report.columns:
            if column.name not in part.sums:
                continue
            cell = part.figure(column.name)
            text = texts.get(column.name) or shown(column, cell, decimals.get(column.name))
            if column.form is Form.AMOUNT:
                text = "not priced yet" if cell is None else f"{text} {currency}"
            part.texts[column.name] = text


def _whose(viewer: User) -> str:
    if can(viewer, "read_books", None):
        return "all teams"
    if team_ids_for(viewer, "view_costs"):
        return "the teams whose costs you may see"
    return "your own jobs"


def _report_url(slug: str, period: Period, scope: Scope, *, by: str = "") -> str:
    """The same as a report: with its other files, or attempt by attempt, which is by month."""
    kind, _, name = scope.text.partition(":")
    days = {"from": period.first.isoformat(), "to": period.last.isoformat(), "by": by}
    asked = days if by else {"period": f"{period.last:%Y-%m}"}
    narrowed = {kind: name} if kind in ("team", "project") else {}
    return f"{reverse('finance:report', args=[slug])}?{urlencode(asked | narrowed)}"


def _csv(
    report: Report, parts: Sequence[Part], by: str, period: Period, currency: str
) -> StreamedFile:
    """Seconds whole and amounts exact, as in the report's own files; the last row is the total."""
    names = [column.name for column in report.columns if column.is_summed]

    def lines() -> Iterator[list[Any]]:
        for part in parts:
            stands = "" if part is parts[-1] else "final" if part.is_final else _SO_FAR
            days = (part.first.isoformat(), part.last.isoformat())
            yield [part.key, *days, *map(part.figure, names), stands, currency]

    header = [by, "first_day", "last_day", *names, "cost_is", "currency"]
    return csv_file(header, lines(), name=f"waste-by-{by}-{period.first}-{period.last}.csv")
