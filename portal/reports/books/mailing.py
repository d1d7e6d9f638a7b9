"""Sending reports that are due: each recipient gets what they may see at that moment, once."""

from __future__ import annotations

import logging
from datetime import datetime
from urllib.parse import urlencode

from django.conf import settings
from django.core.mail import EmailMessage
from django.template.loader import render_to_string
from django.urls import reverse

from accounts.errors import DomainError
from accounts.services.audit import Subject, record
from portal.reports.books import files
from portal.reports.books.opened import check_words
from scheduler.selectors.books.catalogue import open_report
from scheduler.selectors.books.frame import Ask
from scheduler.services.mailing import Due, claim_due, settle

logger = logging.getLogger(__name__)
# What mail servers commonly still take; a larger file is a link only.
MOST_BYTES = 8 * 1024 * 1024


def mail_due_reports(*, now: datetime) -> int:
    """Send what is due; returns how many mails went out. Running it again sends nothing twice."""
    sent = 0
    for due in claim_due(now=now):
        try:
            _send(due, now)
            outcome = "sent"
            sent += 1
        except DomainError as refused:
            outcome = f"not sent: {refused.detail}"
        except OSError as problem:
            logger.warning("report %s: mail failed", due.schedule, exc_info=problem)
            # Left unsettled: it is taken up again after a while.
            continue
        except Exception:
            # One that cannot be made stops no other.
            logger.exception("report %s cannot be made", due.schedule)
            continue
        settle(due.delivery, outcome)
    return sent


def _send(due: Due, now: datetime) -> None:
    schedule, form = due.schedule, due.schedule.file_format
    ask = Ask(due.period, now_s=int(now.timestamp()), **schedule.filters)
    report, sheet = open_report(due.recipient, schedule.slug, ask, is_whole=True)
    files.require_format(form)
    tally = files.Tally()
    blocks: list[bytes] = []
    size = 0
    for block in files.file_blocks(report, sheet, form, files.Style(), tally):
        size += len(block)
        if size > MOST_BYTES:
            blocks = []
            break
        blocks.append(block)
    query = urlencode({"period": due.period, **schedule.filters})
    place = reverse("finance:report", kwargs={"slug": schedule.slug})
    context = {
        "report": report,
        "due": due,
        "sheet": sheet,
        "checks": [check_words(check, report.columns) for check in sheet.checks],
        "link": f"{settings.PUBLIC_URL}{place}?{query}",
        "is_attached": bool(blocks),
        "schedules": settings.PUBLIC_URL + reverse("finance:schedules"),
    }
    body = render_to_string("emails/report.txt", context)
    mail = EmailMessage(
        f"Trainyard: {report.title}, {due.period}", body, None, [due.recipient.email]
    )
    if blocks:
        name = files.file_name(report, ask, form)
        mail.attach(name, b"".join(blocks), files.TYPES[form].partition(";")[0])
    mail.send()
    about = Subject("report", schedule.slug, f"{schedule.slug} {due.period} by mail")
    record(due.recipient, "export.mail", about, after={"period": due.period, "format": form})
