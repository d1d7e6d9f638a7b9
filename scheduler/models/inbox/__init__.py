"""What people are told of, and where it reaches them."""

from scheduler.models.inbox.announcements import Announcement
from scheduler.models.inbox.notifications import (
    Notification,
    NotificationChoice,
    NotificationMute,
)

__all__ = ["Announcement", "Notification", "NotificationChoice", "NotificationMute"]
