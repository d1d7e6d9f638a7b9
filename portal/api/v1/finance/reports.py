"""The reports of the books: the rows of their pages, and the same files."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal import limits
from portal.api.errors import BadRequest
from portal.api.operations import ApiView, Query, operation, refuse_fast, whole
from portal.api.shapes import viewer_of
from portal.api.v1.finance.exports import FileShape
from portal.reports.books import files
from portal.reports.books.asks import Wish, parse_wish
from portal.reports.books.cells import exact_text, json_cell
from portal.reports.books.opened import page_of
from portal.reports.books.sending import kept_instead, send_file
from scheduler.selectors.books.catalogue import month_opened, open_report, reports_for
from scheduler.selectors.books.frame import Form
from scheduler.selectors.books.months import Shelf, shelf

MAX_ROWS = 1000
_FORMS = tuple(str(form) for form in Form)
_FILES = ("csv", "xlsx", "parquet")
_NARROW = (
    Query(
        "period",
        str,
        "The month, such as 2026-11; by default the last closed one, of budgets that of now.",
    ),
    Query("team", str, "Slug of a team."),
    Query("project", str, "team/project."),
    Query("sku", str, "flavour:kind."),
    Query("rate", str, "Number of a rate."),
    Query("attempt", int, "Number of an attempt."),
    Query("label", str, "Key of the label of unit-cost."),
    Query("day", str, "A UTC day of the month, such as 2026-11-03."),
    Query("from", str, "The first day, in UTC, such as 2026-11-03; for reports that take it."),
    Query("to", str, "The last day, itself included; at most 366 days."),
    Query("pool", str, "Name of a pool."),
    Query("flavour", str, "Model of the GPU."),
    Query("kind", str, "Kind of a charge, such as run-borrowed."),
    Query("bucket", str, "A bucket of seconds; allocated, idle and unallocated stand for several."),
    Query("sort", str, "A column, with - in front for falling order."),
)


class ColumnShape(serializers.Serializer[Any]):
    """A column: amounts, prices, hours and percentages are exact decimals, as text."""

    name = serializers.CharField()
    title = serializers.CharField()
    form = serializers.ChoiceField(_FORMS)


class ReportShape(serializers.Serializer[Any]):
    """A report one may open. `takes`: what it can be narrowed by."""

    slug = serializers.CharField()
    title = serializers.CharField()
    about = serializers.CharField()
    grain = serializers.CharField()
    takes = serializers.ListField(child=serializers.CharField())
    columns = ColumnShape(many=True)


class Reports(serializers.Serializer[Any]):
    """The reports one may open."""

    items = ReportShape(many=True)


class ReportCheck(serializers.Serializer[Any]):
    """Two figures that have to be the same (or, for a bound, not above)."""

    check = serializers.CharField()
    left = serializers.CharField()
    right = serializers.CharField()
    unit = serializers.CharField()
    holds = serializers.BooleanField()


class ReportRows(serializers.Serializer[Any]):
    """A part of a report; go on with `after` = `next_after` until that is null."""

    slug = serializers.CharField()
    period = serializers.CharField()
    period_version = serializers.IntegerField()
    period_state = serializers.CharField()
    currency = serializers.CharField()
    columns = serializers.ListField(child=serializers.CharField())
    rows = serializers.ListField(child=serializers.ListField())
    totals = serializers.DictField(child=serializers.CharField())
    checks = ReportCheck(many=True)
    next_after = serializers.IntegerField(allow_null=True)


class ReportList(ApiView):
    """`/finance/reports/`."""

    @operation("reports_list", "Reports you may open", scope="costs:read", reply=Reports)
    def get(self, request: Request) -> Response:
        items = [
            {
                "slug": report.slug,
                "title": report.title,
                "about": report.about,
                "grain": report.grain,
                "takes": sorted(report.takes),
                "columns": [
                    {"name": c.name, "title": c.title, "form": str(c.form)} for c in report.columns
                ],
            }
            for report in reports_for(viewer_of(request))
        ]
        return Response({"items": items})


class ReportBySlug(ApiView):
    """`/finance/reports/<slug>/`."""

    @operation(
        "reports_rows",
        "Rows of a report",
        scope="costs:read",
        query=[
            *_NARROW,
            Query("after", int, "Where to go on: next_after of the part before."),
            Query("limit", int, f"How many rows, 1 to {MAX_ROWS}; 100 by default."),
        ],
        reply=ReportRows,
    )
    def get(self, request: Request, slug: str) -> Response:
        months = shelf()
        wish = _wish(request, slug, months)
        limit = whole(request, "limit", 100, low=1, high=MAX_ROWS)
        report, sheet = open_report(viewer_of(request), slug, wish.ask, months)
        rows, following = page_of(sheet, wish.after, limit)
        return Response(
            {
                "slug": report.slug,
                "period": wish.ask.period,
                "period_version": sheet.version,
                "period_state": sheet.state,
                "currency": sheet.currency,
                "columns": [column.name for column in report.columns],
                "rows": [[json_cell(cell) for cell in row.cells] for row in rows],
                "totals": {name: exact_text(value) for name, value in sheet.totals.items()},
                "checks": files.check_shapes(sheet),
                "next_after": following,
            }
        )


class ReportFile(ApiView):
    """`/finance/reports/<slug>/file/`."""

    @operation(
        "reports_file",
        "A report as a file",
        scope="costs:read",
        query=[
            *_NARROW,
            Query("format", str, "csv by default.", choices=files.FORMATS),
            Query("of", str, "Whose manifest: the file format.", choices=_FILES),
            Query("bom", str, "0: CSV without a byte order mark.", choices=("0", "1")),
            Query("separator", str, "Of a CSV.", choices=("comma", "semicolon")),
            Query("raw", str, "1: no guard before texts like formulas.", choices=("0", "1")),
        ],
        reply=bytes,
        reply_type="text/csv",
        replies={202: FileShape},
    )
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        """CSV, XLSX, Parquet, or the manifest of one of them: rows, totals, SHA-256, checks.

        Of more than 50 000 rows a file is made in the background: the answer is 202 and what
        `/finance/files/` says of it.
        """
        months = shelf()
        wish = _wish(request, slug, months)
        actor = viewer_of(request)
        refuse_fast(limits.EXPORT, actor.pk)
        report, sheet = open_report(actor, slug, wish.ask, months, is_whole=True)
        query = request.query_params.dict()
        made = kept_instead(actor, report, wish, sheet, query, timezone.now())
        if made is not None:
            return Response(FileShape(made).data, status=202)
        return send_file(actor, report, wish, sheet)


def _wish(request: Request, slug: str, months: Shelf) -> Wish:
    query = request.query_params.dict()
    wish = parse_wish(query, now=timezone.now(), period=month_opened(slug, months.last_closed))
    if wish.problems:
        detail = "; ".join(f"{name}: {words}" for name, words in wish.problems)
        raise BadRequest(f"{detail}.", code="bad_query", errors=wish.problems)
    return wish
