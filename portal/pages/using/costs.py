"""Costs: who used how many GPU-seconds, and what they cost; table first, chart second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.selectors.rates import current_rates
from accounts.services.audit import Subject, record
from portal import limits
from portal.forms.filters import Period, parse_period, unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from portal.pages.using.times import SPANS, days_of, words_of
from portal.reports.charts import cost_chart
from portal.reports.streams import StreamedFile, csv_file
from scheduler.conf import load_conf
from scheduler.selectors.usage import CostRow, costs_by, costs_over_time

GROUPS = {
    "project": "Project",
    "team": "Team",
    "user": "Person",
    "device_model": "GPU model",
} | SPANS
FORMATS = ("", "html", "csv")
PARAMETERS = ("by", "from", "to", "format", "scope", "page")


@page("GET")
def cost_overview(request: HttpRequest) -> HttpResponseBase:
    """`?by=&from=&to=`; `?format=csv` gives the same rows as a file."""
    viewer, now = viewer_of(request), timezone.now()
    if opened := opened_in_scope(request, viewer):
        return opened
    period = parse_period(request.GET.get("from", ""), request.GET.get("to", ""), today=now.date())
    problems = [f"{name}: {text}" for name, text in period.problems.items()]
    scope = scope_here(request, viewer, problems)
    by = request.GET.get("by", "") or "project"
    if by not in GROUPS:
        problems.append(f"by: {by[:20]!r} is not a grouping; choose from {', '.join(GROUPS)}.")
        by = "project"
    if request.GET.get("format", "") not in FORMATS:
        problems.append("format: choose html or csv.")
    found = costs_over_time if by in SPANS else costs_by
    rows, total = found(viewer, by, start=period.start, end=period.end, within=scope)
    currency = load_conf().currency
    if request.GET.get("format") == "csv" and not problems:
        limits.count(limits.EXPORT, viewer.pk)
        asked = {"by": by, "first": period.first, "last": period.last}
        record(viewer, "export.costs", Subject("export", "", "costs as CSV"), after=asked)
        return _csv(rows, total, by, period, currency)
    rows = [replace(row, key=_words(by, row)) for row in rows]
    context = {
        "rows": leaf_of(request, rows, "page"),
        "total": total,
        "by": by,
        "by_word": GROUPS[by],
        "groups": GROUPS,
        "period": period,
        "currency": currency,
        "is_time": by in SPANS,
        "figure": cost_chart([(row.key, float(row.cost)) for row in rows], currency),
        "rates": current_rates(),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "now": now,
    }
    return render(request, "costs/overview.html", context)


def _words(by: str, row: CostRow) -> str:
    """What a group is called: days as people write them."""
    if by not in SPANS:
        return row.key
    return words_of(by, *days_of(by, date.fromisoformat(row.key)))


def _csv(
    rows: list[CostRow], total: CostRow, by: str, period: Period, currency: str
) -> StreamedFile:
    header = [by, "first_day", "last_day", "jobs", "gpu_seconds", "gpu_hours", "cost", "currency"]

    def lines() -> Iterator[list[Any]]:
        for row in [*rows, total]:
            yield [
                row.key,
                period.first.isoformat(),
                period.last.isoformat(),
                "" if by in SPANS else row.jobs,
                row.gpu_seconds,
                (Decimal(row.gpu_seconds) / 3600).quantize(Decimal("0.0001")),
                row.cost,
                currency,
            ]

    name = f"costs-by-{by}-{period.first}-{period.last}.csv"
    return csv_file(header, lines(), name=name)
