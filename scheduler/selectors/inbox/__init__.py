"""What a person was told."""

from scheduler.selectors.inbox.announcements import open_announcements, visible_announcements
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
    "open_announcements",
    "visible_announcements",
    "visible_notifications",
]
