"""The index of finance and one page for all reports; the same address gives the files."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from accounts.errors import Conflict, Invalid, NotFound
from portal import limits
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.saved.views import REPORT, kept_query, report_query, report_views
from portal.reports.books import files
from portal.reports.books.asks import FILTERS, PARAMETERS, Wish, parse_wish
from portal.reports.books.figures import report_pictures
from portal.reports.books.opened import (
    PAGE_ROWS,
    adds_up,
    check_words,
    decimals_of,
    foot_of,
    page_columns,
    page_of,
    shown_rows,
)
from portal.reports.books.pivots import figures_of, folded, groups_of, pivoted
from portal.reports.books.sending import MOST_SENT, kept_instead, send_file
from scheduler.selectors.books.catalogue import (
    REPORTS,
    month_opened,
    open_report,
    report_named,
    reports_for,
)
from scheduler.selectors.books.frame import Ask, Report, Sheet
from scheduler.selectors.books.months import shelf
from scheduler.selectors.books.overview import (
    books_overview,
    burning,
    movers,
    reconciliation,
)
from scheduler.selectors.books.scope import scope_of

_FORMAT_WORDS = (("csv", "CSV"), ("xlsx", "XLSX"), ("parquet", "Parquet"), ("manifest", "Manifest"))
_TIMES = ("from", "to", "sort")
_BEING_MADE = (
    f"This report has more than {MOST_SENT:,} rows. Its file is being made and stands below once "
    "it is there."
)


@page("GET")
def index(request: HttpRequest) -> HttpResponseBase:
    """Months, their state and control totals; the reports the viewer may open.

    `?report=capacity&by=pool`, as saved views are written, leads to that report.
    """
    viewer, now = viewer_of(request), timezone.now()
    slug, problems = request.GET.get(REPORT, ""), []
    if slug in REPORTS:
        rest = kept_query((n, str(v)) for n, v in request.GET.items() if n != REPORT)
        return redirect(f"{reverse('finance:report', args=[slug])}?{rest}")
    if slug:
        problems.append(f"{REPORT}: there is no {slug[:40]!r}; choose one of those below.")
    overview = books_overview(viewer, now)
    final = [(m.name, m.version, m.currency) for m in overview.months if m.version]
    keeps, scope = overview.is_bookkeeper, scope_of(viewer)
    context = {
        "reports": reports_for(viewer, scope),
        "views": report_views(request, viewer),
        "problems": problems,
        "overview": overview,
        "nightly": reconciliation(viewer) if keeps else None,
        "last": next((month for month in overview.months if month.version), None),
        "movers": movers(scope, final) if keeps else (),
        "moved": [name for name, *_ in final[1::-1]],
        "burning": burning(viewer, now) if keeps else (),
        "now": now,
    }
    return render(request, "finance/index.html", context)


@page("GET")
def report(request: HttpRequest, slug: str) -> HttpResponseBase:
    """`?period=2026-11&team=…&sort=-total&after=…`; `?format=csv|xlsx|parquet|manifest`; where it
    folds to fewer rows, `?rows=all` shows all of them, as files have it."""
    viewer, now = viewer_of(request), timezone.now()
    months = shelf()
    wish = parse_wish(request.GET, now=now, period=month_opened(slug, months.last_closed))
    found = whole = report_named(slug)
    problems = [f"{name}: {words}." for name, words in wish.problems]
    try:
        whole, sheet = open_report(viewer, slug, wish.ask, months, is_whole=bool(wish.form))
        found, sheet = pivoted(whole, sheet, wish.ask, wish.pivot)
        if wish.form and not problems:
            limits.count(limits.EXPORT, viewer.pk)
            # Grouped rows are few, and are counted from all of them.
            if found is whole and kept_instead(viewer, found, wish, sheet, request.GET.dict(), now):
                messages.success(request, _BEING_MADE)
                return redirect("finance:exports")
            return send_file(viewer, found, wish, sheet)
    except (Invalid, Conflict, NotFound, files.Unavailable) as refused:
        problems.append(f"{refused.field}: {refused.detail}" if refused.field else refused.detail)
        sheet = Sheet(lambda after: iter(()), {}, ())
    behind = sheet.count if found is whole and whole.folds and not wish.has_all_rows else 0
    if behind:
        found, sheet = folded(whole, sheet, wish.ask)
        behind = behind if behind != sheet.count else 0
    table = _table(found, wish, sheet)
    if not (problems or table["rows"] or wish.after):
        problems += _found_nothing(wish.ask)
    context = {
        **table,
        "report": found,
        "ask": wish.ask,
        "sheet": sheet,
        "checks": [(check.holds, check_words(check, found.columns)) for check in sheet.checks],
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "formats": _FORMAT_WORDS,
        "groups": groups_of(whole),
        "folds": _fold_words(whole),
        "rows_behind": behind,
        "figures": figures_of(whole),
        "pivot": wish.pivot,
        "fields": [(n, wish.ask.value(n) or "") for n in FILTERS if n in found.takes],
        "after": wish.after,
        "view_query": report_query(request, slug),
        "is_filtered": bool(set(wish.ask.filters) - {"sort"}),
        "months": list(dict.fromkeys([*months.names(int(now.timestamp())), wish.ask.period])),
        "now": now,
    }
    return render(request, "finance/report.html", context)


def _fold_words(whole: Report) -> str:
    """By what its page first takes its rows together: `team and GPU`; empty for none."""
    titles = [whole.column(name).title for name in whole.folds]
    return " and ".join(title if title.isupper() else title.lower() for title in titles)


def _found_nothing(ask: Ask) -> list[str]:
    """What a report without any row was narrowed to: it may be a slip of the pen."""
    asked = [f"{name} {text[:40]!r}" for name, text in ask.filters.items() if name not in _TIMES]
    return [f"Nothing in this time is of {' and '.join(asked)}."] if asked else []


def _table(found: Report, wish: Wish, sheet: Sheet) -> dict[str, Any]:
    """A page of rows, its foot, its picture and the place to go on from."""
    rows, following = page_of(sheet, wish.after)
    columns, left_out, details = page_columns(found, sheet, is_all=wish.has_details)
    decimals = decimals_of(found, columns, rows, sheet.totals)
    shown = list(shown_rows(found, columns, wish.ask, rows, decimals))
    foot = foot_of(found, columns, sheet.totals, decimals) if sheet.totals else []
    is_all = not (wish.after or following)
    return {
        "columns": [(column, _sort_of(found, wish.ask, column.name)) for column in columns],
        "rows": shown,
        "foot": foot,
        "is_rounded": is_all and not adds_up(shown, foot),
        "left_out": left_out,
        "details": details,
        "has_details": wish.has_details,
        "has_all_rows": wish.has_all_rows,
        "pictures": report_pictures(found, sheet),
        "following": following,
        "page_rows": PAGE_ROWS,
    }


def _sort_of(found: Report, ask: Ask, name: str) -> tuple[str, str]:
    """What a click on a header sorts by, and which way it is sorted now."""
    if found.is_streamed or ":" in name:
        return "", ""
    if ask.sort == f"-{name}":
        return name, "descending"
    return f"-{name}", "ascending" if ask.sort == name else ""
