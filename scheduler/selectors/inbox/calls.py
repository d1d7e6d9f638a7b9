"""What calls for a person on every page: requests to decide on, news to read."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Value

from accounts.models import User
from scheduler.models import Notification
from scheduler.selectors.inbox.visible import MOST_COUNTED, visible_notifications
from scheduler.selectors.requesting import waiting_for

_APPROVALS, _UNREAD = 0, 1


@dataclass(frozen=True, slots=True)
class Calls:
    """`approvals`: requests whose step one may take. `unread`: news, at most MOST_COUNTED."""

    approvals: int = 0
    unread: int = 0


def calls_for(viewer: User) -> Calls:
    """Both numbers in one statement; it equals counting each by itself."""
    new = visible_notifications(viewer).filter(read_at__isnull=True).order_by()[:MOST_COUNTED]
    unread = Notification.objects.order_by().filter(pk__in=new.values("pk"))
    both = [
        rows.order_by().values(what_=Value(what)).annotate(number_=Count("pk"))
        for what, rows in ((_APPROVALS, waiting_for(viewer)), (_UNREAD, unread))
    ]
    found = dict(both[0].union(both[1], all=True).values_list("what_", "number_"))
    return Calls(found.get(_APPROVALS, 0), found.get(_UNREAD, 0))
