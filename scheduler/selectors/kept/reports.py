"""Files of reports, for who asked for them."""

from __future__ import annotations

from collections.abc import Sequence

from accounts.errors import Conflict, NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.models import ReportFile
from scheduler.selectors.books.catalogue import REPORTS, may_open, report_named
from scheduler.selectors.books.scope import Scope, scope_of


def report_files_of(viewer: User) -> Sequence[ReportFile]:
    """The viewer's own that `get_report_file` does not hide, the latest first; one query for the
    rows, however many."""
    rows = list(ReportFile.objects.filter(asked_by=viewer).order_by("-pk"))
    if not rows:
        return rows
    scope, keeps_books = scope_of(viewer), can(viewer, "read_books", None)
    return [row for row in rows if _may_still(row, scope, keeps_books=keeps_books)]


def get_report_file(viewer: User, pk: int) -> ReportFile:
    """One of the viewer's own that can be fetched.

    Raises NotFound for a missing and a foreign one alike, and once the viewer may not see any more
    what it was made of; Conflict with why it is not there.
    """
    row = ReportFile.objects.filter(asked_by=viewer, pk=pk).first()
    keeps_books = can(viewer, "read_books", None)
    if row is None or not _may_still(row, scope_of(viewer), keeps_books=keeps_books):
        raise NotFound("There is no such file for you.")
    if row.problem:
        raise Conflict(f"It could not be made: {row.problem}", code="not_made")
    if row.pruned_at is not None:
        raise Conflict("It was kept long enough and is deleted; ask for it again.", code="pruned")
    if row.made_at is None:
        raise Conflict("It is still being made; try again in a minute.", code="being_made")
    return row


def _may_still(row: ReportFile, scope: Scope, *, keeps_books: bool) -> bool:
    if row.slug == "focus":
        return keeps_books
    # A report that later versions do not know is nobody's.
    is_covered = row.slug in REPORTS and (row.made_at is None or scope.covers(row.scope))
    return is_covered and may_open(scope, report_named(row.slug))
