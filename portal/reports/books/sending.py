"""Sending a report as a file; that money left the house is recorded."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseBase

from accounts.models import User
from accounts.services.audit import Subject, record
from portal.reports.books import files
from portal.reports.books.asks import Wish
from portal.reports.streams import StreamedFile
from scheduler.selectors.books.frame import Report, Sheet


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
