"""What calls for a person on every page: requests to decide on, news to read, whether a
demonstration is here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import IntegerField, QuerySet, Subquery

from accounts.models import DemoMark, User
from scheduler.selectors.inbox.shown import shown_to
from scheduler.selectors.inbox.visible import MOST_COUNTED, visible_notifications
from scheduler.selectors.requesting import waiting_for


@dataclass(frozen=True, slots=True)
class Calls:
    """`approvals`: requests whose step one may take. `unread`: news that the inbox shows, at
    most MOST_COUNTED. `demo`: 1 while a demonstration is among what is real."""

    approvals: int = 0
    unread: int = 0
    demo: int = 0


class _Number(Subquery):
    """How many rows a statement has."""

    output_field = IntegerField()
    # Where nothing can wait for somebody, no statement is written.
    empty_result_set_value = 0
    template = "(SELECT COUNT(*) FROM (%(subquery)s) AS rows_)"


def calls_along(viewer: User) -> dict[str, Subquery]:
    """The numbers, to come with the row that a page is about; `keep_calls` takes them from it."""
    new = visible_notifications(viewer).filter(shown_to(viewer), read_at__isnull=True)
    waiting = waiting_for(viewer).order_by()
    demo, unread = DemoMark.objects.order_by(), new.order_by()[:MOST_COUNTED]
    return {
        "calls_approvals": _of(waiting),
        "calls_unread": _of(unread),
        "calls_demo": _of(demo),
    }


def keep_calls(viewer: User, row: Any) -> None:
    """What came with the row, if it did, is the answer to the next `calls_for`, once: the viewer
    lives as long as one request."""
    if hasattr(row, "calls_unread"):
        found = Calls(row.calls_approvals, row.calls_unread, row.calls_demo)
        viewer.calls_read = found  # type: ignore[attr-defined]


def calls_for(viewer: User) -> Calls:
    """The numbers in one statement, or as a row that was read for the same page brought them."""
    # Not by its dictionary: the user of a request is a stand-in for a lazy one.
    if hasattr(viewer, "calls_read"):
        read: Calls = viewer.calls_read
        del viewer.calls_read
        return read
    numbers = calls_along(viewer).values()
    rows = User.objects.order_by().values_list(*numbers)[:1]
    return Calls(*rows[0]) if rows else Calls()


def _of(rows: QuerySet[Any]) -> Subquery:
    return _Number(rows.values("pk"))
