"""Requests for quota, for a viewer."""

from scheduler.selectors.requesting.lists import (
    InboxRow,
    count_waiting_for,
    get_visible_request,
    inbox_of,
    my_requests,
    visible_requests,
)

__all__ = [
    "InboxRow",
    "count_waiting_for",
    "get_visible_request",
    "inbox_of",
    "my_requests",
    "visible_requests",
]
