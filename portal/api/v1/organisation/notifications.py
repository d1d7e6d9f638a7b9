"""`/notifications/…`: what the caller was told, and where it reaches them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, Query, body_of, flag, operation
from portal.api.pagination import PAGE_QUERY, page_of
from portal.api.shapes import viewer_of
from scheduler.models import Notification
from scheduler.selectors.inbox import Choice, choices_of, visible_notifications
from scheduler.selectors.inbox.sight import seen_by
from scheduler.services.inbox import choose_kind, mark_read, mute, unmute


class NotificationShape(serializers.Serializer[Any]):
    """`subject` groups what is about one thing, such as `job:12`; `path` is its page."""

    id = serializers.IntegerField()
    kind = serializers.CharField(max_length=20)
    subject = serializers.CharField()
    title = serializers.CharField()
    text = serializers.CharField(allow_blank=True)
    path = serializers.CharField()
    at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)


class NotificationPage(serializers.Serializer[Any]):
    """The newest first. Without what is about something that is gone, or that you may not see any
    more, so that a page may have fewer than asked for, or none, and another one follow."""

    items = NotificationShape(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class ReadBody(serializers.Serializer[Any]):
    """Of one thing or, without `subject`, of all; `up_to`: no later one than this id."""

    subject = serializers.CharField(max_length=40, required=False, default="", allow_blank=True)
    up_to = serializers.IntegerField(min_value=1, max_value=2**63 - 1, required=False)


class Read(serializers.Serializer[Any]):
    """How many were unread until now."""

    marked = serializers.IntegerField()


class MuteBody(serializers.Serializer[Any]):
    """`muted` false: tell of it again."""

    subject = serializers.CharField(max_length=40)
    muted = serializers.BooleanField(required=False, default=True)


class Muted(serializers.Serializer[Any]):
    """The thing, and whether it is muted now."""

    subject = serializers.CharField()
    muted = serializers.BooleanField()


class ChoiceShape(serializers.Serializer[Any]):
    """Where one kind of news reaches the caller; the kinds are those of the list."""

    kind = serializers.CharField(max_length=20)
    in_inbox = serializers.BooleanField()
    by_mail = serializers.BooleanField()


class ChosenShape(ChoiceShape):
    """`is_open`: one may choose. Others come as a job itself asks for them (`notify`), or a watch,
    to the inbox and by mail."""

    is_open = serializers.BooleanField()


class Choices(serializers.Serializer[Any]):
    """Every kind; what a job itself asks for (`notify`) goes first."""

    items = ChosenShape(many=True)


def _show(row: Notification) -> dict[str, Any]:
    return {
        "id": row.pk,
        "kind": row.kind,
        "subject": row.subject,
        "title": row.title,
        "text": row.text,
        "path": row.path,
        "at": row.at,
        "read_at": row.read_at,
    }


def _chosen(choices: list[Choice]) -> dict[str, Any]:
    return {
        "items": [
            {
                "kind": one.kind,
                "in_inbox": one.in_inbox,
                "by_mail": one.by_mail,
                "is_open": one.is_open,
            }
            for one in choices
        ]
    }


class Notifications(ApiView):
    """`/notifications/`."""

    @operation(
        "notifications_list",
        "What you were told, the newest first",
        scope="people:read",
        query=[Query("unread", bool, "1: only what you have not read yet."), *PAGE_QUERY],
        reply=NotificationPage,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        rows = visible_notifications(viewer)
        if flag(request, "unread"):
            rows = rows.filter(read_at__isnull=True)
        part = page_of(request, rows, lambda found: [_show(one) for one in seen_by(viewer, found)])
        return Response(part)


class MarkRead(ApiView):
    """`/notifications/read/`."""

    @operation(
        "notifications_read", "Mark as read", scope="people:write", body=ReadBody, reply=Read
    )
    def post(self, request: Request) -> Response:
        sent = body_of(request, ReadBody)
        return Response({"marked": mark_read(actor=viewer_of(request), **sent)})


class Mute(ApiView):
    """`/notifications/mute/`."""

    @operation(
        "notifications_mute",
        "Be told no more of one thing, or again",
        scope="people:write",
        body=MuteBody,
        reply=Muted,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, MuteBody), viewer_of(request)
        change = mute if sent["muted"] else unmute
        change(actor=actor, subject=sent["subject"])
        return Response(sent)


class Settings(ApiView):
    """`/notifications/settings/`."""

    @operation(
        "notification_settings",
        "Where each kind of news reaches you",
        scope="people:read",
        reply=Choices,
    )
    def get(self, request: Request) -> Response:
        return Response(_chosen(choices_of(viewer_of(request))))

    @operation(
        "notification_choose",
        "Choose for one kind",
        scope="people:write",
        body=ChoiceShape,
        reply=Choices,
    )
    def post(self, request: Request) -> Response:
        actor = viewer_of(request)
        choose_kind(actor=actor, **body_of(request, ChoiceShape))
        return Response(_chosen(choices_of(actor)))
