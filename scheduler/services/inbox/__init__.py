"""What people are told: written by those who change something, read and sorted by the person."""

from scheduler.services.inbox.announcing import announce, end_announcement
from scheduler.services.inbox.chat import (
    Tried,
    add_channel,
    change_channel,
    remove_channel,
    try_channel,
)
from scheduler.services.inbox.hours import known_zones, set_hours
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
    "Tried",
    "add_channel",
    "add_webhook",
    "announce",
    "change_channel",
    "change_webhook",
    "choose_kind",
    "end_announcement",
    "known_zones",
    "mark_read",
    "mute",
    "pause_webhook",
    "remove_channel",
    "remove_webhook",
    "resume_webhook",
    "send_again",
    "set_hours",
    "tell",
    "try_channel",
    "unmute",
]
