"""What calls for a person on every page: requests and cancels to decide on, news to read, whether
a demonstration is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Expression, QuerySet

from accounts.held import picture_of
from accounts.models import DemoMark, User
from accounts.statements import CountsOnce
from scheduler.selectors.inbox.shown import shown_to
from scheduler.selectors.inbox.visible import MOST_COUNTED, visible_notifications
from scheduler.selectors.requesting import waiting_for
from scheduler.selectors.requesting.cancels import cancels_to_answer


@dataclass(frozen=True, slots=True)
class Calls:
    """`requests`: those whose step one may take. `cancels`: those of many jobs that one may agree
    to. `unread`: news that the inbox shows, at most MOST_COUNTED. `demo`: 1 while a demonstration
    is among what is real."""

    requests: int = 0
    cancels: int = 0
    unread: int = 0
    demo: int = 0

    @property
    def approvals(self) -> int:
        """All that one may agree to."""
        return self.requests + self.cancels


def _queries(viewer: User) -> Mapping[str, QuerySet[Any]]:
    new = visible_notifications(viewer).filter(shown_to(viewer), read_at__isnull=True)
    return {
        "calls_requests": waiting_for(viewer).order_by(),
        "calls_cancels": cancels_to_answer(viewer).order_by(),
        "calls_unread": new.order_by()[:MOST_COUNTED],
        "calls_demo": DemoMark.objects.order_by(),
    }


_CALLS = CountsOnce(_queries)


def calls_along(viewer: User) -> Mapping[str, Expression]:
    """The numbers, to come with the row that a page is about; `keep_calls` takes them from it."""
    return _CALLS.along(viewer, picture_of(viewer))


def keep_calls(viewer: User, row: Any) -> None:
    """What came with the row, if it did, is the answer to the next `calls_for`, once: the viewer
    lives as long as one request."""
    if hasattr(row, "calls_unread"):
        found = Calls(row.calls_requests, row.calls_cancels, row.calls_unread, row.calls_demo)
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
