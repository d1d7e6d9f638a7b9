"""What people are told of, and where it reaches them."""

from scheduler.models.inbox.notifications import (
    Notification,
    NotificationChoice,
    NotificationMute,
)

__all__ = ["Notification", "NotificationChoice", "NotificationMute"]
