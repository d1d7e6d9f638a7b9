"""What a person was told."""

from scheduler.selectors.inbox.visible import (
    Choice,
    Group,
    choices_of,
    count_unread,
    grouped,
    muted_by,
    visible_notifications,
)

__all__ = [
    "Choice",
    "Group",
    "choices_of",
    "count_unread",
    "grouped",
    "muted_by",
    "visible_notifications",
]
