"""Sending a report as a file, or having a long one made; that money left the house is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice

from django.http import HttpResponse, HttpResponseBase

from accounts.models import User
from accounts.services.audit import Subject, record
from portal.reports.books import files
from portal.reports.books.asks import FILTERS, Wish
from portal.reports.streams import StreamedFile
from scheduler.models import ReportFile
from scheduler.selectors.books.frame import Report, Sheet
from scheduler.services.kept.reports import FORMATS, ask_report_file

# What is longer is made in the background and kept, so that a line that drops loses nothing.
MOST_SENT = 50_000
_STYLE = ("bom", "separator", "raw")


def kept_instead(
    viewer: User, report: Report, wish: Wish, sheet: Sheet, query: Mapping[str, str], now: datetime
) -> ReportFile | None:
    """The file that is being made of a report too long to be sent at once; None of another one.

    `query` as in the address. Raises as `ask_report_file`, and Unavailable.
    """
    form = wish.form or "csv"
    if form not in FORMATS or not _is_long(sheet):
        return None
    files.require_format(form)
    asked = {name: query.get(name, "") for name in (*FILTERS, *_STYLE)}
    return ask_report_file(
        actor=viewer,
        slug=report.slug,
        period=wish.ask.period,
        file_format=form,
        query=asked,
        now=now,
    )


def _is_long(sheet: Sheet) -> bool:
    """Streamed reports do not know their length: their rows are read up to the limit."""
    if sheet.count is not None:
        return sheet.count > MOST_SENT
    return next(islice(sheet.rows(0), MOST_SENT, None), None) is not None


def send_file(viewer: User, report: Report, wish: Wish, sheet: Sheet) -> HttpResponseBase:
    """The report in the format wished for; raises Unavailable where its library is missing."""
    form = wish.form or "csv"
    files.require_format(wish.of if form == "manifest" else form)
    after = {"period": wish.ask.period, "version": sheet.version, "format": form}
    about = Subject("report", report.slug, f"{report.slug} {wish.ask.period}")
    record(viewer, "export.report", about, after={**after, **wish.ask.filters})
    name = files.file_name(report, wish.ask, form)
    if form != "manifest":
        blocks = files.file_blocks(report, sheet, form, wish.style, files.Tally())
        return StreamedFile(blocks, name=name, content_type=files.TYPES[form])
    document = files.manifest(report, wish.ask, sheet, wish.of, wish.style)
    answer = HttpResponse(files.manifest_text(document), content_type=files.TYPES[form])
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
