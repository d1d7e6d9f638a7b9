"""What people are told of, and where it reaches them."""

from scheduler.models.inbox.announcements import Announcement
from scheduler.models.inbox.notifications import (
    Notification,
    NotificationChoice,
    NotificationMute,
)
from scheduler.models.inbox.webhooks import Delivery, Webhook

__all__ = [
    "Announcement",
    "Delivery",
    "Notification",
    "NotificationChoice",
    "NotificationMute",
    "Webhook",
]
