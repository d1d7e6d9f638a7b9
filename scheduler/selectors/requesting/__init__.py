"""Requests for quota, for a viewer."""

from scheduler.selectors.requesting.lists import (
    get_request_to_read,
    get_visible_request,
    my_requests,
    read_history,
    sees_all,
    used_lately,
    visible_requests,
)
from scheduler.selectors.requesting.waiting import (
    SMALL_GPUS,
    InboxRow,
    inbox_of,
    is_small,
    teams_slower,
    waiting_for,
)

__all__ = [
    "SMALL_GPUS",
    "InboxRow",
    "get_request_to_read",
    "get_visible_request",
    "inbox_of",
    "is_small",
    "my_requests",
    "read_history",
    "sees_all",
    "teams_slower",
    "used_lately",
    "visible_requests",
    "waiting_for",
]
