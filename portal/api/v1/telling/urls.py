"""`…/notifications/…`, `…/watches/`, `…/channels/…`, `…/webhooks/…`, a line for each address."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.v1.organisation import notifications, webhooks
from portal.api.v1.telling import channels, hours, watches

telling_urls: list[URLPattern] = [
    path("notifications/", notifications.Notifications.as_view(), name="notifications"),
    path("notifications/read/", notifications.MarkRead.as_view(), name="notifications_read"),
    path("notifications/mute/", notifications.Mute.as_view(), name="notifications_mute"),
    path("notifications/hours/", hours.NewsHours.as_view(), name="notifications_hours"),
    path(
        "notifications/settings/",
        notifications.Settings.as_view(),
        name="notifications_settings",
    ),
    path("watches/", watches.WatchList.as_view(), name="watches"),
    path("jobs/<int:pk>/watch/", watches.JobWatchers.as_view(), name="job_watch"),
    path("sets/<int:pk>/watch/", watches.SetWatchers.as_view(), name="set_watch"),
    path("channels/", channels.ChannelList.as_view(), name="channels"),
    path("channels/<int:pk>/", channels.ChannelByNumber.as_view(), name="channel"),
    path("channels/<int:pk>/test/", channels.ChannelTest.as_view(), name="channel_test"),
    path(
        "channels/<int:pk>/messages/", channels.ChannelMessages.as_view(), name="channel_messages"
    ),
    path("webhooks/", webhooks.WebhookList.as_view(), name="webhooks"),
    path("webhooks/<int:pk>/", webhooks.WebhookByNumber.as_view(), name="webhook"),
    path("webhooks/deliveries/", webhooks.DeliveryList.as_view(), name="deliveries"),
    path(
        "webhooks/deliveries/<int:pk>/again/",
        webhooks.DeliveryAgain.as_view(),
        name="delivery_again",
    ),
]
