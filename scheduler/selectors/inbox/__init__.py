"""What a person was told."""

from scheduler.selectors.inbox.announcements import open_announcements, visible_announcements
from scheduler.selectors.inbox.calls import Calls, calls_along, calls_for, keep_calls
from scheduler.selectors.inbox.channels import (
    get_visible_channel,
    hours_for,
    messages_to,
    visible_channels,
    words_of,
)
from scheduler.selectors.inbox.visible import (
    Choice,
    Group,
    choices_of,
    grouped,
    muted_by,
    visible_notifications,
)
from scheduler.selectors.inbox.webhooks import (
    deliveries_of,
    get_visible_delivery,
    get_visible_webhook,
    latest_deliveries,
    visible_webhooks,
)

__all__ = [
    "Calls",
    "Choice",
    "Group",
    "calls_along",
    "calls_for",
    "choices_of",
    "deliveries_of",
    "get_visible_channel",
    "get_visible_delivery",
    "get_visible_webhook",
    "grouped",
    "hours_for",
    "keep_calls",
    "latest_deliveries",
    "messages_to",
    "muted_by",
    "open_announcements",
    "visible_announcements",
    "visible_channels",
    "visible_notifications",
    "visible_webhooks",
    "words_of",
]
