"""What people are told of, and where it reaches them."""

from scheduler.models.inbox.announcements import Announcement
from scheduler.models.inbox.hours import NewsHours, WaitingNews
from scheduler.models.inbox.notifications import (
    Notification,
    NotificationChoice,
    NotificationMute,
)
from scheduler.models.inbox.watches import JobWatch
from scheduler.models.inbox.webhooks import Delivery, Dialect, Webhook

__all__ = [
    "Announcement",
    "Delivery",
    "Dialect",
    "JobWatch",
    "NewsHours",
    "Notification",
    "NotificationChoice",
    "NotificationMute",
    "WaitingNews",
    "Webhook",
]
