"""Files of reports: asked for by people, claimed and made by a task, deleted after a while."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_hex
from typing import IO

from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.services.audit import Subject, record
from scheduler.conf import load_conf
from scheduler.ledger.focus.columns import VERSIONS
from scheduler.models import ReportFile
from scheduler.selectors.books.catalogue import may_open, report_named
from scheduler.selectors.books.scope import scope_of
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.kept.folders import remove_if_empty

logger = logging.getLogger(__name__)

FOCUS = "focus"
MOST_WAITING = 10
FORMATS = ("csv", "xlsx", "parquet")
# Whoever claimed a file and says nothing of it for so long has died over it.
_RETRY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Made:
    """What a file turned out to be; `scope`: of what, as `Scope.as_kept` tells."""

    name: str
    version: int
    rows: int
    size: int
    digest: str
    scope: Mapping[str, object]


@transaction.atomic
def ask_report_file(
    *,
    actor: User,
    slug: str,
    period: str,
    file_format: str,
    query: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> ReportFile:
    """Let a report's file be made and kept; the FOCUS export is the slug `focus`.

    Who asks again for what is still being made gets that one.

    Raises NotFound or Forbidden for a report that is not the actor's, Invalid for a format or a
    filter it does not know, Conflict while too many of theirs wait.
    """
    if slug == FOCUS:
        if not can(actor, "read_books", None):
            raise Forbidden("Only those who keep or audit the books export them.")
        takes: frozenset[str] = frozenset()
        known: tuple[str, ...] = VERSIONS
    else:
        report = report_named(slug)
        if not may_open(scope_of(actor), report):
            raise Forbidden("This report is not yours to open.")
        takes = report.takes | {"sort", "bom", "separator", "raw"}
        known = FORMATS
    if file_format not in known:
        raise Invalid(f"Choose from {', '.join(known)}.", field="format")
    kept = {name: value.strip() for name, value in (query or {}).items() if value.strip()}
    for name in kept:
        if name not in takes:
            raise Invalid(f"This file is not narrowed by {name}.", field=name)
    same = _still_waiting(actor, (slug, period, file_format, kept))
    if same:
        return same
    row = ReportFile.objects.create(
        asked_by=actor,
        asked_at=now or timezone.now(),
        slug=slug,
        period=period,
        file_format=file_format,
        query=kept,
    )
    about = Subject("report", slug, f"{slug} {period}")
    after = {"number": row.pk, "period": period, "format": file_format, **kept}
    record(actor, "export.ask", about, after=after, now=now)
    return row


def _still_waiting(actor: User, wish: tuple[str, str, str, Mapping[str, str]]) -> ReportFile | None:
    # One at a time for a person: they are counted here.
    User.objects.select_for_update().get(pk=actor.pk)
    waiting = list(ReportFile.objects.filter(asked_by=actor, made_at=None, problem=""))
    for row in waiting:
        if (row.slug, row.period, row.file_format, row.query) == wish:
            return row
    if len(waiting) >= MOST_WAITING:
        raise Conflict(f"{len(waiting)} files of yours are still being made; wait for them.")
    return None


def claim_report_files(*, now: datetime) -> Iterator[ReportFile]:
    """Files that are to be made, the oldest first, each claimed as it is taken."""
    free = Q(claimed_at=None) | Q(claimed_at__lte=now - _RETRY)
    due = ReportFile.objects.filter(free, made_at=None, problem="")
    for pk in list(due.order_by("pk").values_list("pk", flat=True)):
        # Those before it may have taken long.
        if due.filter(pk=pk).update(claimed_at=max(now, timezone.now())):
            yield ReportFile.objects.select_related("asked_by").get(pk=pk)


def note_progress(row: ReportFile, rows: int, size: int, *, now: datetime) -> None:
    """Say how far a file is, and that who makes it is alive."""
    being_made = ReportFile.objects.filter(pk=row.pk, made_at=None, problem="")
    being_made.update(rows=rows, size=size, claimed_at=now)


def keep_report_file(row: ReportFile, file: IO[bytes], made: Made, *, now: datetime) -> None:
    """Store the bytes; the row knows of them once they are whole.

    Who was thought dead over it and comes second leaves what is there: each stores its bytes where
    no other does, in a store that writes over what has the same name, too.
    """
    path = default_storage.save(f"reports/{row.pk}/{token_hex(8)}", File(file))
    is_first = ReportFile.objects.filter(pk=row.pk, made_at=None).update(
        path=path,
        name=made.name,
        version=made.version,
        rows=made.rows,
        size=made.size,
        digest=made.digest,
        scope=dict(made.scope),
        made_at=now,
    )
    if not is_first:
        default_storage.delete(path)


def refuse_report_file(row: ReportFile, problem: str) -> None:
    """Say why there is no file, unless another has made it meanwhile."""
    ReportFile.objects.filter(pk=row.pk, made_at=None).update(problem=problem[:255], rows=0, size=0)


def read_report_file(row: ReportFile, start: int, end: int) -> Iterator[bytes]:
    """The stored bytes from `start` up to `end`, block by block; raises OSError without them."""
    with default_storage.open(row.path) as file:
        file.seek(start)
        while start < end and (block := file.read(min(64 * 1024, end - start))):
            start += len(block)
            yield block


def due_report_files(*, now: datetime) -> QuerySet[ReportFile]:
    """Files that were made longer ago than files are kept, and still have their bytes."""
    limit = now - timedelta(days=load_conf().keep_report_days)
    return ReportFile.objects.filter(made_at__lt=limit, pruned_at=None)


def prune_report_files(*, now: datetime) -> int:
    """Delete the bytes of files that are due; returns how many."""
    count = 0
    for row in due_report_files(now=now).order_by("pk").iterator():
        try:
            with suppress(FileNotFoundError):
                default_storage.delete(row.path)
        except OSError as problem:
            # Due again the next time, and in no other's way.
            logger.warning("report file %s could not be deleted: %s", row.pk, problem)
            continue
        remove_if_empty(f"reports/{row.pk}")
        count += ReportFile.objects.filter(pk=row.pk).update(pruned_at=now)
    return count
