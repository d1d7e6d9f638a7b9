"""What people are told: written by those who change something, read and sorted by the person."""

from scheduler.services.inbox.announcing import announce, end_announcement
from scheduler.services.inbox.sorting import choose_kind, mark_read, mute, unmute
from scheduler.services.inbox.telling import News, tell
from scheduler.services.inbox.webhooks import (
    add_webhook,
    change_webhook,
    pause_webhook,
    remove_webhook,
    resume_webhook,
    send_again,
)

__all__ = [
    "News",
    "add_webhook",
    "announce",
    "change_webhook",
    "choose_kind",
    "end_announcement",
    "mark_read",
    "mute",
    "pause_webhook",
    "remove_webhook",
    "resume_webhook",
    "send_again",
    "tell",
    "unmute",
]
