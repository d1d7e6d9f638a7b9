"""Making the files people asked for: with what each may see at that moment, one at a time."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from time import monotonic

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

from accounts.errors import DomainError
from accounts.models import User
from accounts.services.audit import Subject, record
from portal.reports.books import files
from portal.reports.books.asks import Wish, parse_wish
from portal.reports.books.focus_files import focus_archive
from portal.reports.ranges import ranged_file
from scheduler.models import ReportFile
from scheduler.selectors.books.catalogue import open_report
from scheduler.selectors.books.focus import close_version
from scheduler.selectors.books.scope import scope_of
from scheduler.services.errors import Invalid
from scheduler.services.kept import reports as kept

logger = logging.getLogger(__name__)
# So often a long file says how far it is.
_TELL_S = 5.0


def ask_file(
    viewer: User, slug: str, wish: Wish, file_format: str, query: Mapping[str, str], now: datetime
) -> ReportFile:
    """As `ask_report_file`; what making it would refuse, a team or a month that is none, is refused
    now.
    """
    if slug == kept.FOCUS:
        close_version(viewer, wish.ask.period)
    else:
        open_report(viewer, slug, wish.ask)
    return kept.ask_report_file(
        actor=viewer,
        slug=slug,
        period=wish.ask.period,
        file_format=file_format,
        query=query,
        now=now,
    )


def make_report_files(*, now: datetime) -> int:
    """Make what is asked for; returns how many files there are more."""
    count = 0
    for row in kept.claim_report_files(now=now):
        try:
            _make(row, now)
            count += 1
        except (DomainError, ValueError) as refused:
            kept.refuse_report_file(row, getattr(refused, "detail", "") or str(refused))
        except OSError:
            # Left claimed: it is taken up again after a while.
            logger.warning("report file %s could not be stored", row.pk, exc_info=True)
        except Exception:
            # A fault of ours: those behind it are made all the same, and it is not tried for ever.
            logger.exception("report file %s could not be made", row.pk)
            kept.refuse_report_file(row, "It could not be made: our fault, and noted. Ask again.")
    return count


def _make(row: ReportFile, now: datetime) -> None:
    tally = files.Tally()
    scope = scope_of(row.asked_by).as_kept()
    name, version, blocks = _opened(row, tally)
    digest, size = hashlib.sha256(), 0
    with tempfile.TemporaryFile() as file:
        told_s = monotonic()
        for block in blocks:
            digest.update(block)
            size += file.write(block)
            if monotonic() - told_s >= _TELL_S:
                kept.note_progress(row, tally.rows, size, now=timezone.now())
                told_s = monotonic()
        file.seek(0)
        made = kept.Made(name, version, tally.rows, size, digest.hexdigest(), scope)
        kept.keep_report_file(row, file, made, now=now)


def _opened(row: ReportFile, tally: files.Tally) -> tuple[str, int, Iterator[bytes]]:
    """Name, version of the month, and the bytes; what is refused is refused here."""
    viewer = row.asked_by
    if row.slug == kept.FOCUS:
        blocks = focus_archive(viewer, row.period, row.file_format)
        name = f"focus-{row.file_format}-{row.period}.zip"
        return name, close_version(viewer, row.period), blocks
    asked = {**row.query, "period": row.period, "format": row.file_format}
    wish = parse_wish(asked, now=row.asked_at)
    if wish.problems:
        field, words = wish.problems[0]
        raise Invalid(f"{field}: {words}.", field=field)
    files.require_format(wish.form)
    report, sheet = open_report(viewer, row.slug, wish.ask, is_whole=True)
    blocks = files.file_blocks(report, sheet, wish.form, wish.style, tally)
    return files.file_name(report, wish.ask, wish.form), sheet.version, blocks


def send_kept(request: HttpRequest, viewer: User, row: ReportFile) -> HttpResponseBase:
    """A kept file, or the part that is still missing; that money left the house is recorded."""
    answer = ranged_file(
        request,
        lambda start, end: kept.read_report_file(row, start, end),
        size=row.size,
        digest=row.digest,
        name=row.name,
        content_type=files.TYPES.get(row.file_format, "application/zip"),
    )
    if request.method != "HEAD" and answer.status_code != 416:
        about = Subject("report", row.slug, f"{row.slug} {row.period}")
        part = answer.headers.get("Content-Range", "")
        after = {"number": row.pk, "format": row.file_format, "sha256": row.digest, "part": part}
        record(viewer, "export.file", about, after=after)
    return answer
