"""Files of reports, for who asked for them."""

from __future__ import annotations

from collections.abc import Sequence

from accounts.errors import Conflict, NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.models import ReportFile
from scheduler.selectors.books.catalogue import may_open, report_named
from scheduler.selectors.books.scope import scope_of


def report_files_of(viewer: User) -> Sequence[ReportFile]:
    """The viewer's own, the latest first; one query."""
    return list(ReportFile.objects.filter(asked_by=viewer).order_by("-pk"))


def get_report_file(viewer: User, pk: int) -> ReportFile:
    """One of the viewer's own that can be fetched.

    Raises NotFound for a missing and a foreign one alike, and once the viewer may not see any more
    what it was made of; Conflict with why it is not there.
    """
    row = ReportFile.objects.filter(asked_by=viewer, pk=pk).first()
    if row is None or not _may_still(viewer, row):
        raise NotFound("There is no such file for you.")
    if row.problem:
        raise Conflict(f"It could not be made: {row.problem}", code="not_made")
    if row.pruned_at is not None:
        raise Conflict("It was kept long enough and is deleted; ask for it again.", code="pruned")
    if row.made_at is None:
        raise Conflict("It is still being made; try again in a minute.", code="being_made")
    return row


def _may_still(viewer: User, row: ReportFile) -> bool:
    if row.slug == "focus":
        return can(viewer, "read_books", None)
    scope = scope_of(viewer)
    may_open_it = may_open(scope, report_named(row.slug))
    return may_open_it and (row.made_at is None or scope.covers(row.scope))
