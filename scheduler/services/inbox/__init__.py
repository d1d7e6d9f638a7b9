"""What people are told: written by those who change something, read and sorted by the person."""

from scheduler.services.inbox.announcing import announce, end_announcement
from scheduler.services.inbox.sorting import choose_kind, mark_read, mute, unmute
from scheduler.services.inbox.telling import News, tell

__all__ = [
    "News",
    "announce",
    "choose_kind",
    "end_announcement",
    "mark_read",
    "mute",
    "tell",
    "unmute",
]
